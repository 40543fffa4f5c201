from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from kclient import TopicPartition
from kclient.deadline import Deadline
from kclient.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
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
from kclient.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from kclient.testing import FakeCluster
from kclient.testing.fake import error_code, move_coordinator

from .raw import RawClient, only

Start = Callable[..., FakeCluster]


class ClassicMember:
    """A member of the group ``g`` that does what it is told, one request at a time."""

    def __init__(
        self, cluster: FakeCluster, *, instance: str | None = None, session_ms: int = 30_000
    ) -> None:
        self.client = RawClient(cluster.address(cluster.coordinator("g")))
        self.instance = instance
        self.session_ms = session_ms
        self.id = ""
        self.generation = -1

    def __enter__(self) -> ClassicMember:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.client.sock.close()

    def join(self, metadata: bytes = b"m", protocol: str = "range") -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=30_000,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=protocol, metadata=metadata)],
        )
        answer = self.client.ask(request, 9, JoinGroupResponse)
        self.id = answer.member_id or self.id
        self.generation = answer.generation_id
        return answer

    def enter(self) -> JoinGroupResponse:
        """Join twice: the first time only gets the id."""
        assert self.join().error_code == 79
        return self.join()

    def sync(self, assignments: dict[str, bytes] | None = None) -> SyncGroupResponse:
        request = SyncGroupRequest(
            group_id="g",
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
            group_id="g",
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
        )
        return self.client.ask(request, 4, HeartbeatResponse).error_code

    def leave(self) -> int:
        who = MemberIdentity(member_id=self.id, group_instance_id=self.instance)
        request = LeaveGroupRequest(group_id="g", members=[who])
        answer = self.client.ask(request, 5, LeaveGroupResponse)
        return int(only(answer.members).error_code)

    def commit(self, offset: int = 5) -> int:
        return commit(self.client, self.id, self.generation, offset)


def commit(client: RawClient, member_id: str, generation: int, offset: int = 5) -> int:
    topic = OffsetCommitRequestTopic(
        name="orders",
        partitions=[OffsetCommitRequestPartition(committed_offset=offset, committed_metadata="")],
    )
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[topic],
    )
    answer = client.ask(request, 9, OffsetCommitResponse)
    return int(only(only(answer.topics).partitions).error_code)


def test_two_members_agree_and_part(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=2, topics={"orders": 2})
    with (
        ClassicMember(cluster) as one,
        ClassicMember(cluster) as two,
        ThreadPoolExecutor() as pool,
    ):
        alone = one.enter()
        assert (alone.error_code, alone.generation_id, alone.leader) == (0, 1, one.id)
        assert one.sync({one.id: b"all"}).assignment == b"all"
        assert two.join().error_code == 79
        joining = pool.submit(two.join)
        cluster.await_request("JoinGroup", nth=4)
        assert one.heartbeat() == 27
        assert one.commit() == 0  # what it has read may still be committed
        leads = one.join()
        follows = joining.result(10)
        assert {m.member_id for m in leads.members} == {one.id, two.id}
        assert (follows.leader, follows.members) == (one.id, [])
        assert one.generation == two.generation == 2
        waiting = pool.submit(two.sync)
        cluster.await_request("SyncGroup", nth=2)
        assert one.commit() == 27
        assert one.sync({one.id: b"half", two.id: b"other half"}).assignment == b"half"
        assert waiting.result(10).assignment == b"other half"
        assert (one.heartbeat(), two.heartbeat(), two.commit()) == (0, 0, 0)
        one.generation = 1
        assert (one.heartbeat(), one.commit()) == (22, 22)
        assert two.leave() == 0
        assert (two.heartbeat(), two.commit(), two.leave()) == (25, 25, 25)


def test_a_silent_member_is_dropped_after_its_session(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    with ClassicMember(cluster) as one, ClassicMember(cluster, session_ms=300) as two:
        two.enter()
        two.sync({})
        assert one.join().error_code == 79
        answer = one.join()  # returns when the session of the other is over
        assert [m.member_id for m in answer.members] == [one.id]
        assert two.heartbeat() == 25


def test_a_static_member_keeps_its_place(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    with (
        ClassicMember(cluster, instance="i") as before,
        ClassicMember(cluster, instance="i") as after,
    ):
        assert before.join().error_code == 0
        before.sync({before.id: b"mine"})
        back = after.join()
        assert (back.error_code, back.generation_id, back.skip_assignment) == (0, 1, True)
        assert after.sync().assignment == b"mine"
        assert before.heartbeat() == 82
        assert after.heartbeat() == 0


def test_members_need_a_protocol_in_common(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    with ClassicMember(cluster) as one, ClassicMember(cluster) as two:
        one.enter()
        two.join()
        assert two.join(protocol="sticky").error_code == 23


def test_offsets_of_nobody_are_taken_while_the_group_is_empty(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    with ClassicMember(cluster) as member:
        assert commit(member.client, "", -1, 7) == 0
        assert cluster.committed("g") == {TopicPartition("orders", 0): 7}
        member.enter()
        assert commit(member.client, "", -1, 8) == 25
        assert cluster.committed("g") == {TopicPartition("orders", 0): 7}


def test_a_coordinator_that_moves_answers_those_who_wait(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=2, topics={"orders": 1})
    cluster.move_coordinator("g", 1)
    with (
        ClassicMember(cluster) as one,
        ClassicMember(cluster) as two,
        ThreadPoolExecutor() as pool,
    ):
        one.enter()
        two.join()
        waiting = pool.submit(two.join)
        cluster.await_request("JoinGroup", nth=4)
        cluster.on("Heartbeat", move_coordinator("g", 2))
        assert one.heartbeat() == 16
        assert waiting.result(10).error_code == 16
    with ClassicMember(cluster) as moved:
        moved.id, moved.generation = one.id, one.generation
        assert moved.heartbeat() == 27


def test_a_scripted_rebalance(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    with ClassicMember(cluster) as member:
        member.enter()
        member.sync({})
        cluster.on("Heartbeat", error_code(27), nth=2)
        assert [member.heartbeat() for _ in range(3)] == [0, 27, 0]


class ConsumerMember:
    """A member of a KIP-848 group that owns at once what it is told to."""

    def __init__(self, cluster: FakeCluster, member_id: str) -> None:
        self.client = RawClient(cluster.address(cluster.coordinator("g")))
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
                group_id="g",
                member_id=self.id,
                member_epoch=self.epoch,
                rebalance_timeout_ms=30_000,
                subscribed_topic_names=["orders"] if full else None,
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

    @property
    def partitions(self) -> list[int]:
        return sorted(index for indexes in self.owned.values() for index in indexes)


def test_the_broker_moves_partitions_from_member_to_member(fake_cluster: Start) -> None:
    cluster = fake_cluster(brokers=2, topics={"orders": 4}, group_heartbeat_interval_ms=123)
    with ConsumerMember(cluster, "a") as one, ConsumerMember(cluster, "b") as two:
        first = one.heartbeat()
        assert (one.partitions, one.epoch, first.heartbeat_interval_ms) == ([0, 1, 2, 3], 1, 123)
        assert one.heartbeat(full=False).assignment is None
        two.heartbeat()
        assert (two.partitions, two.epoch) == ([], 2)  # nothing is free yet
        one.heartbeat()
        assert (len(one.partitions), one.epoch) == (2, 1)  # it has to let go first
        two.heartbeat()
        assert two.partitions == []
        one.heartbeat()
        assert one.epoch == 2
        two.heartbeat()
        assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]
        assert commit(one.client, "a", 2) == 0
        assert commit(one.client, "a", 1) == 113
        one.epoch = 7
        assert one.heartbeat().error_code == 110
        two.epoch = -1
        assert two.heartbeat().error_code == 0
        assert two.heartbeat().error_code == 25


def test_a_new_topic_makes_a_new_epoch_for_its_subscribers_only(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={})
    with ConsumerMember(cluster, "a") as member:
        member.heartbeat()
        assert (member.partitions, member.epoch) == ([], 1)
        cluster.create_topic("others", 1)
        member.heartbeat()
        assert member.epoch == 1
        cluster.create_topic("orders", 2)
        member.heartbeat()
        assert (member.partitions, member.epoch) == ([0, 1], 2)


def test_a_silent_consumers_partitions_go_to_the_others(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={"orders": 2}, group_session_timeout_ms=200)
    with ConsumerMember(cluster, "a") as silent, ConsumerMember(cluster, "b") as other:
        silent.heartbeat()
        deadline = Deadline(10)
        while other.partitions != [0, 1]:
            assert deadline.remaining()
            other.heartbeat()
        assert silent.heartbeat().error_code == 25


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_may_be_out_of_order(fake_cluster: Start, code: int) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    cluster.on("ConsumerGroupHeartbeat", error_code(code))
    with ConsumerMember(cluster, "a") as member:
        assert [member.heartbeat().error_code for _ in range(2)] == [code, 0]
