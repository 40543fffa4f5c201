"""Clients that do what a test tells them, one request at a time: producers and members."""

from __future__ import annotations

from uuid import UUID

from kclient import ProducerRecord, records
from kclient.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from kclient.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kclient.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kclient.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kclient.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kclient.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kclient.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kclient.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

from .raw import RawClient, only

TV1, TV2 = 0, 2


class ClassicMember:
    """A member of a classic group."""

    def __init__(
        self,
        address: str,
        group: str = "g",
        *,
        topic: str = "orders",
        instance: str | None = None,
        session_ms: int = 30_000,
    ) -> None:
        self.client = RawClient(address)
        self.group, self.topic = group, topic
        self.instance = instance
        self.session_ms = session_ms
        self.id, self.generation, self.protocol = "", -1, "range"

    def __enter__(self) -> ClassicMember:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.client.sock.close()

    def join(self, metadata: bytes = b"m", protocol: str = "range") -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=30_000,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=protocol, metadata=metadata)],
        )
        answer = self.client.ask(request, 9, JoinGroupResponse)
        self.protocol = protocol
        self.id = answer.member_id or self.id
        self.generation = answer.generation_id
        return answer

    def enter(self) -> JoinGroupResponse:
        """Join twice: the first time only gets the id."""
        assert self.join().error_code == 79
        return self.join()

    def sync(self, assignments: dict[str, bytes] | None = None) -> SyncGroupResponse:
        request = SyncGroupRequest(
            protocol_type="consumer",
            protocol_name=self.protocol,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=data)
                for member, data in (assignments or {}).items()
            ],
        )
        return self.client.ask(request, 5, SyncGroupResponse)

    def heartbeat(self) -> int:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
        )
        return self.client.ask(request, 4, HeartbeatResponse).error_code

    def leave(self) -> int:
        who = MemberIdentity(member_id=self.id, group_instance_id=self.instance)
        request = LeaveGroupRequest(group_id=self.group, members=[who])
        answer = self.client.ask(request, 5, LeaveGroupResponse)
        return int(only(answer.members).error_code)

    def commit(self, offset: int = 5) -> int:
        return commit(self.client, self.id, self.generation, offset, self.group, self.topic)


def commit(
    client: RawClient,
    member_id: str,
    generation: int,
    offset: int = 5,
    group: str = "g",
    topic: str = "orders",
) -> int:
    wanted = OffsetCommitRequestTopic(
        name=topic,
        partitions=[OffsetCommitRequestPartition(committed_offset=offset, committed_metadata="")],
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[wanted],
    )
    answer = client.ask(request, 9, OffsetCommitResponse)
    return int(only(only(answer.topics).partitions).error_code)


class ConsumerMember:
    """A member of a KIP-848 group that owns at once what it is told to."""

    def __init__(
        self,
        address: str,
        member_id: str,
        group: str = "g",
        *,
        topic: str = "orders",
        instance: str | None = None,
    ) -> None:
        self.client = RawClient(address)
        self.instance = instance
        self.group, self.topic = group, topic
        self.id = member_id
        self.epoch = 0
        self.owned: dict[UUID, list[int]] = {}

    def __enter__(self) -> ConsumerMember:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.client.sock.close()

    def heartbeat(self, *, full: bool = True) -> ConsumerGroupHeartbeatResponse:
        owned = [RequestTopicPartitions(topic_id=t, partitions=p) for t, p in self.owned.items()]
        answer = self.client.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.id,
                member_epoch=self.epoch,
                instance_id=self.instance,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=[self.topic] if full else None,
                topic_partitions=owned if full else None,
            ),
            1,
            ConsumerGroupHeartbeatResponse,
        )
        if answer.assignment is not None:
            self.owned = {t.topic_id: t.partitions for t in answer.assignment.topic_partitions}
        if not answer.error_code:
            self.epoch = answer.member_epoch
        return answer

    def code(self) -> int:
        """The error code of a heartbeat."""
        return self.heartbeat().error_code

    @property
    def partitions(self) -> list[int]:
        return sorted(index for indexes in self.owned.values() for index in indexes)


class Writer:
    """A transactional producer."""

    def __init__(
        self,
        client: RawClient,
        version: int,
        timeout_ms: int = 60_000,
        *,
        transactional_id: str = "t",
        topic: str = "orders",
    ) -> None:
        self.client = client
        self.transactional_id, self.topic = transactional_id, topic
        self.version = version
        self.timeout_ms = timeout_ms
        self.id, self.epoch, self.sequence = -1, -1, 0

    def init(self) -> int:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        answer = self.client.ask(request, 5, InitProducerIdResponse)
        self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return answer.error_code

    def add(self) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[0])],
        )
        answer = self.client.ask(request, 3, AddPartitionsToTxnResponse)
        topic = only(answer.results_by_topic_v3_and_below)
        return int(only(topic.results_by_partition).partition_error_code)

    def produce(self, value: bytes) -> int:
        batch = records.encode(
            [ProducerRecord(self.topic, value)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=True,
        )
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            topic_data=[
                TopicProduceData(
                    name=self.topic, partition_data=[PartitionProduceData(records=batch)]
                )
            ],
        )
        answer = self.client.ask(request, 12 if self.version == TV2 else 10, ProduceResponse)
        code = int(only(only(answer.responses).partition_responses).error_code)
        self.sequence += not code
        return code

    def end(self, *, commit: bool) -> int:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = self.client.ask(request, 5 if self.version == TV2 else 4, EndTxnResponse)
        if self.version == TV2 and not answer.error_code:
            self.id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0
        return answer.error_code
