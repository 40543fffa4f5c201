"""Rows of requests about topics and what is in them."""

from __future__ import annotations

from kclient import ProducerRecord, records
from kclient.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kclient.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kclient.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kclient.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kclient.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kclient.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kclient.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from ..raw import RawClient, only
from .common import batch, make_topic, produce, settled


def idempotence(address: str, name: str) -> list[object]:
    with RawClient(address) as client:
        make_topic(client, name)
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
        assert settled(lambda: client.ask(request, 4, InitProducerIdResponse).error_code) == 0
        producer = client.ask(request, 4, InitProducerIdResponse)

        def send(sequence: int, epoch: int = 0, count: int = 2) -> tuple[int, int]:
            data = batch(
                count,
                producer_id=producer.producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            return produce(client, name, data)

        seen: list[object] = [send(n) for n in (0, 2, 4, 6, 8, 10)]
        seen += [send(10), send(2), send(0), send(14), send(11), send(10, count=3)]
        seen += [send(1, epoch=1), send(0, epoch=1), send(12), send(0, epoch=1), send(2, epoch=1)]
        stranger = batch(1, producer_id=999_999, producer_epoch=0, base_sequence=5)
        return [*seen, produce(client, name, stranger)]


def produce_requests_that_are_wrong(address: str, name: str) -> list[object]:
    with RawClient(address) as client:
        make_topic(client, name)
        damaged = bytearray(batch())
        damaged[-1] ^= 1
        zstd = records.encode([ProducerRecord("", b"x")], compression="zstd")
        return [
            produce(client, name, bytes(damaged)),
            produce(client, name, batch() + batch()),
            produce(client, name, b""),
            produce(client, name, records.encode([ProducerRecord("", b"x")], magic=1)),
            produce(client, name, batch(), acks=2),
            produce(client, name, zstd, version=6),
            produce(client, name, zstd, version=7),
            produce(client, f"{name}-missing", batch()),
            produce(client, name, batch(1, producer_id=5, producer_epoch=0, base_sequence=-1)),
            produce(
                client, name, records.encode([ProducerRecord("", b"x" * 2_000_000)]), version=9
            ),
        ]


def offsets_and_epochs(address: str, name: str) -> list[object]:
    with RawClient(address) as client:
        make_topic(client, name)
        for _ in range(2):
            produce(client, name, batch(5))

        def offset(timestamp: int, epoch: int = -1) -> tuple[int, int, int, int]:
            wants = ListOffsetsPartition(timestamp=timestamp, current_leader_epoch=epoch)
            topic = ListOffsetsTopic(name=name, partitions=[wants])
            request = ListOffsetsRequest(replica_id=-1, topics=[topic])
            answer = client.ask(request, 8, ListOffsetsResponse)
            found = only(only(answer.topics).partitions)
            return found.error_code, found.offset, found.timestamp, found.leader_epoch

        def end(epoch: int, current: int = -1) -> tuple[int, int, int]:
            wants = OffsetForLeaderPartition(leader_epoch=epoch, current_leader_epoch=current)
            topic = OffsetForLeaderTopic(topic=name, partitions=[wants])
            request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
            answer = client.ask(request, 4, OffsetForLeaderEpochResponse)
            found = only(only(answer.topics).partitions)
            return found.error_code, found.leader_epoch, found.end_offset

        def delete(before: int) -> tuple[int, int]:
            wants = DeleteRecordsPartition(offset=before)
            topic = DeleteRecordsTopic(name=name, partitions=[wants])
            request = DeleteRecordsRequest(topics=[topic], timeout_ms=5000)
            answer = client.ask(request, 2, DeleteRecordsResponse)
            found = only(only(answer.topics).partitions)
            return found.error_code, found.low_watermark

        seen: list[object] = [offset(t) for t in (-1, -2, -3, -4, 0, 1003, 1004, 9999)]
        seen += [offset(-1, 7), end(0), end(3), end(0, 9), delete(99), delete(3)]
        seen += [offset(-2), offset(0), delete(-1), offset(-2), offset(0)]
        return seen


def fetches(address: str, name: str) -> list[object]:
    with RawClient(address) as client:
        make_topic(client, name, 2)
        for _ in range(3):
            produce(client, name, batch(2))

        def fetch(
            offset: int,
            *,
            topic: str = name,
            partition: int = 0,
            epoch: int = -1,
            last_epoch: int = -1,
            max_bytes: int = 1 << 20,
        ) -> object:
            wants = FetchPartition(
                partition=partition,
                fetch_offset=offset,
                current_leader_epoch=epoch,
                last_fetched_epoch=last_epoch,
                partition_max_bytes=max_bytes,
            )
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                isolation_level=1,
                topics=[FetchTopic(topic=topic, partitions=[wants])],
            )
            answer = client.ask(request, 12, FetchResponse)
            found = only(only(answer.responses).partitions)
            return (
                answer.error_code,
                found.error_code,
                found.high_watermark,
                found.last_stable_offset,
                found.log_start_offset,
                found.diverging_epoch.epoch,
                found.diverging_epoch.end_offset,
                [r.offset for r in records.decode(found.records or b"")],
            )

        seen = [fetch(0), fetch(3), fetch(6), fetch(7), fetch(-1), fetch(0, max_bytes=1)]
        seen += [fetch(0, partition=1), fetch(0, partition=9), fetch(0, topic=f"{name}-missing")]
        seen += [fetch(0, epoch=9), fetch(0, last_epoch=0), fetch(9, last_epoch=0)]
        return [*seen, fetch(0, last_epoch=5)]


def fetch_sessions(address: str, name: str) -> list[object]:
    with RawClient(address) as client:
        make_topic(client, name, 2)

        def fetch(session: int, epoch: int, offsets: dict[int, int] | None = None) -> FetchResponse:
            wants = [
                FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=1000)
                for n, offset in (offsets or {}).items()
            ]
            topics = [FetchTopic(topic=name, partitions=wants)] if wants else []
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                session_id=session,
                session_epoch=epoch,
                topics=topics,
            )
            return client.ask(request, 12, FetchResponse)

        def told(answer: FetchResponse, session: int) -> object:
            partitions = [
                (p.partition_index, p.error_code, p.high_watermark, bool(p.records))
                for topic in answer.responses
                for p in topic.partitions
            ]
            return answer.error_code, answer.session_id == session, sorted(partitions)

        first = fetch(0, 0, {0: 0, 1: 0})
        session = first.session_id
        seen = [session > 0, told(first, session), told(fetch(session, 1), session)]
        produce(client, name, batch(2))
        seen += [told(fetch(session, 2), session), told(fetch(session, 3, {0: 2}), session)]
        seen += [told(fetch(session, 4), session), told(fetch(session, 4), 0)]
        seen += [told(fetch(session, 9), 0), told(fetch(session + 1, 1), 0)]
        return [*seen, told(fetch(session, -1, {0: 0}), 0), told(fetch(session, 5), 0)]


def topics(address: str, name: str) -> list[object]:
    with RawClient(address) as client:

        def create(topic: str, count: int, replication: int = 1) -> int:
            wanted = CreatableTopic(
                name=topic, num_partitions=count, replication_factor=replication
            )
            answer = client.ask(CreateTopicsRequest(topics=[wanted]), 7, CreateTopicsResponse)
            return int(only(answer.topics).error_code)

        def grow(topic: str, count: int) -> int:
            wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
            request = CreatePartitionsRequest(topics=[wanted], timeout_ms=5000)
            answer = client.ask(request, 3, CreatePartitionsResponse)
            return int(only(answer.results).error_code)

        make_topic(client, name, 2)
        seen: list[object] = [create(name, 1), create("no/name", 1), create(f"{name}-0", 0)]
        seen += [create("", 1), create(".", 1), create(f"{name}-9", 1, 9), create("x" * 250, 1)]
        return [*seen, grow(name, 3), grow(name, 2), grow(name, 3), grow(f"{name}-missing", 2)]
