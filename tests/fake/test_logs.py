"""Leader epochs, truncation, sessions, racks, topic ids: what readers meet besides records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest

from kclient import ProducerRecord, TopicPartition, records
from kclient.errors import CorruptRecord
from kclient.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kclient.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kclient.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kclient.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kclient.testing import FakeCluster

from .raw import RawClient, only

TP = TopicPartition("orders", 0)
Start = Callable[..., FakeCluster]


def batch(*values: bytes, timestamp: int = -1) -> bytes:
    return records.encode(
        [ProducerRecord("orders", value, timestamp_ms=timestamp) for value in values]
    )


@pytest.fixture
def cluster(fake_cluster: Start) -> FakeCluster:
    return fake_cluster(brokers=2, topics={"orders": 2}, racks={1: "a", 2: "b"})


@pytest.fixture
def client(cluster: FakeCluster) -> Iterator[RawClient]:
    with RawClient(cluster.address(1)) as connected:
        yield connected


def fetch(
    client: RawClient,
    offset: int,
    *,
    rack: str = "",
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> PartitionData:
    wants = FetchPartition(
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=current_leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )
    request = FetchRequest(rack_id=rack, topics=[FetchTopic(topic="orders", partitions=[wants])])
    answer = client.ask(request, 12, FetchResponse)
    found = only(only(answer.responses).partitions)
    assert isinstance(found, PartitionData)
    return found


def end_of_epoch(client: RawClient, epoch: int, current: int = -1) -> tuple[int, int, int]:
    wants = OffsetForLeaderPartition(leader_epoch=epoch, current_leader_epoch=current)
    topic = OffsetForLeaderTopic(topic="orders", partitions=[wants])
    request = OffsetForLeaderEpochRequest(topics=[topic])
    answer = client.ask(request, 4, OffsetForLeaderEpochResponse)
    found = only(only(answer.topics).partitions)
    return found.error_code, found.leader_epoch, found.end_offset


def list_offset(client: RawClient, timestamp: int, version: int = 8) -> tuple[int, int]:
    wants = ListOffsetsPartition(timestamp=timestamp)
    topic = ListOffsetsTopic(name="orders", partitions=[wants])
    request = ListOffsetsRequest(replica_id=-1, topics=[topic])
    answer = client.ask(request, version, ListOffsetsResponse)
    found = only(only(answer.topics).partitions)
    return found.offset, found.timestamp


def test_a_truncation_shows_in_epochs(cluster: FakeCluster, client: RawClient) -> None:
    for value in (b"a", b"b", b"c"):
        cluster.append(TP, batch(value))
    cluster.truncate(TP, 1)
    cluster.append(TP, batch(b"d"))
    assert [(r.offset, r.value, r.leader_epoch) for r in cluster.records(TP)] == [
        (0, b"a", 0),
        (1, b"d", 1),
    ]
    assert end_of_epoch(client, 0) == (0, 0, 1)
    assert end_of_epoch(client, 1) == (0, 1, 2)
    assert end_of_epoch(client, 9) == (0, -1, -1)
    assert end_of_epoch(client, 0, current=0) == (74, -1, -1)
    assert end_of_epoch(client, 0, current=5) == (75, -1, -1)
    diverged = fetch(client, 3, last_fetched_epoch=0)
    assert (diverged.diverging_epoch.epoch, diverged.diverging_epoch.end_offset) == (0, 1)
    assert fetch(client, 3).error_code == 1
    assert fetch(client, 0, current_leader_epoch=0).error_code == 74


def test_records_that_expired_are_out_of_range(cluster: FakeCluster, client: RawClient) -> None:
    cluster.append(TP, batch(b"a", b"b", b"c"))
    cluster.delete_records(TP, 2)
    assert fetch(client, 1).error_code == 1
    assert fetch(client, 2).log_start_offset == 2
    assert list_offset(client, -2) == (2, -1)
    assert [r.value for r in cluster.records(TP)] == [b"c"]


def test_offsets_by_time(cluster: FakeCluster, client: RawClient) -> None:
    for timestamp in (1000, 3000, 2000):
        cluster.append(TP, batch(b"x", timestamp=timestamp))
    assert list_offset(client, 1500) == (1, 3000)
    assert list_offset(client, 9000) == (-1, -1)
    assert list_offset(client, -3) == (1, 3000)
    assert list_offset(client, -1) == (3, -1)


def test_a_damaged_batch_can_be_stored_for_its_readers(
    cluster: FakeCluster, client: RawClient
) -> None:
    damaged = bytearray(batch(b"a"))
    damaged[-1] ^= 1
    cluster.append(TP, damaged)
    with pytest.raises(CorruptRecord):
        records.decode(fetch(client, 0).records or b"")


def test_a_reader_is_sent_to_the_replica_in_its_rack(
    cluster: FakeCluster, client: RawClient
) -> None:
    cluster.append(TP, batch(b"a"))
    sent = fetch(client, 0, rack="b")
    assert (sent.preferred_read_replica, sent.records) == (2, b"")
    with RawClient(cluster.address(2)) as near:
        assert [r.value for r in records.decode(fetch(near, 0, rack="b").records or b"")] == [b"a"]


def incremental(
    client: RawClient, session: int, epoch: int, offset: int | None = None, *, forget: bool = False
) -> FetchResponse:
    topics = []
    if offset is not None:
        wants = [
            FetchPartition(partition=n, fetch_offset=offset, partition_max_bytes=1000)
            for n in (0, 1)
        ]
        topics = [FetchTopic(topic="orders", partitions=wants)]
    gone = [ForgottenTopic(topic="orders", partitions=[0])] if forget else []
    request = FetchRequest(
        session_id=session, session_epoch=epoch, topics=topics, forgotten_topics_data=gone
    )
    return client.ask(request, 12, FetchResponse)


def test_a_session_tells_only_news(cluster: FakeCluster, client: RawClient) -> None:
    cluster.move_leader(TopicPartition("orders", 1), 1)
    first = incremental(client, 0, 0, 0)
    assert len(only(first.responses).partitions) == 2
    session = first.session_id
    assert session > 0
    assert incremental(client, session, 1).responses == []
    cluster.append(TP, batch(b"a"))
    news = incremental(client, session, 2)
    assert only(only(news.responses).partitions).partition_index == 0
    assert incremental(client, session, 2).error_code == 71
    assert incremental(client, session, 3, forget=True).responses == []
    cluster.forget_fetch_sessions(1)
    assert incremental(client, session, 4).error_code == 70


def test_a_topic_made_again_has_another_id(cluster: FakeCluster, client: RawClient) -> None:
    def topic_id() -> UUID:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
        found = only(client.ask(asked, 12, MetadataResponse).topics).topic_id
        assert isinstance(found, UUID)
        return found

    old = topic_id()
    cluster.append(TP, batch(b"a"))
    cluster.delete_topic("orders")
    cluster.create_topic("orders", 1)
    assert topic_id() != old
    wants = [FetchPartition(partition_max_bytes=1000)]
    request = FetchRequest(topics=[FetchTopic(topic_id=old, partitions=wants)])
    answer = client.ask(request, 13, FetchResponse)
    assert only(only(answer.responses).partitions).error_code == 100
    assert cluster.records(TP) == []


def test_a_fetch_returns_whole_batches_up_to_its_limits(
    cluster: FakeCluster, client: RawClient
) -> None:
    size = len(batch(b"x" * 100))
    for _ in range(3):
        cluster.append(TP, batch(b"x" * 100))

    def count(**limits: int) -> int:
        wants = FetchPartition(partition_max_bytes=limits.get("partition", 1 << 20))
        topic = FetchTopic(topic="orders", partitions=[wants])
        request = FetchRequest(max_bytes=limits.get("total", 1 << 20), topics=[topic])
        found = only(only(client.ask(request, 12, FetchResponse).responses).partitions)
        return len(records.decode(found.records or b""))

    assert count() == 3
    assert count(partition=2 * size) == 2
    assert count(total=2 * size) == 2
    assert count(partition=1) == 1  # at least one, so that a reader gets on (KIP-74)
