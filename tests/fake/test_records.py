from __future__ import annotations

import threading

import pytest

from kclient import ProducerRecord, TopicPartition, records
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kclient.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kclient.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kclient.testing import FakeCluster

from .raw import RawClient, only

TP = TopicPartition("orders", 0)


def batch(*values: bytes, **options: int) -> bytes:
    return records.encode([ProducerRecord("orders", value) for value in values], **options)  # type: ignore[arg-type]


def produce(client: RawClient, data: bytes, *, version: int = 9, acks: int = -1) -> tuple[int, int]:
    """Error code and base offset."""
    request = ProduceRequest(
        acks=acks,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(
                name="orders", partition_data=[PartitionProduceData(index=0, records=data)]
            )
        ],
    )
    answer = client.ask(request, version, ProduceResponse)
    done = only(only(answer.responses).partition_responses)
    return done.error_code, done.base_offset


def fetch_request(offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[
            FetchTopic(
                topic="orders",
                partitions=[FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20)],
            )
        ],
    )


def fetch(client: RawClient, offset: int, *, version: int = 11) -> PartitionData:
    answer = client.ask(fetch_request(offset), version, FetchResponse)
    found = only(only(answer.responses).partitions)
    assert isinstance(found, PartitionData)
    return found


def test_every_broker_tells_the_same_metadata() -> None:
    with FakeCluster(brokers=3, topics={"orders": 6}) as cluster:
        seen = []
        for node in (1, 2, 3):
            with RawClient(cluster.address(node)) as client:
                seen.append(client.ask(MetadataRequest(topics=None), 12, MetadataResponse))
        assert seen[0] == seen[1] == seen[2]
        assert [broker.node_id for broker in seen[0].brokers] == [1, 2, 3]
        topic = only(seen[0].topics)
        assert [p.leader_id for p in topic.partitions] == [1, 2, 3, 1, 2, 3]
        assert all(len(p.replica_nodes) == 3 for p in topic.partitions)


@pytest.mark.parametrize("version", range(14))
def test_an_unknown_topic_is_told_in_every_version(version: int) -> None:
    with FakeCluster() as cluster, RawClient(cluster.address(1)) as client:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="nope")])
        answer = client.ask(request, version, MetadataResponse)
        assert only(answer.topics).error_code == 3


@pytest.mark.parametrize("version", range(3, 13))
def test_records_come_back_as_they_were_sent(version: int) -> None:
    with FakeCluster(topics={"orders": 1}) as cluster, RawClient(cluster.address(1)) as client:
        assert produce(client, batch(b"a", b"b"), version=version) == (0, 0)
        assert produce(client, batch(b"c"), version=version) == (0, 2)
        assert [(r.offset, r.value) for r in cluster.records(TP)] == [
            (0, b"a"),
            (1, b"b"),
            (2, b"c"),
        ]
        found = fetch(client, 2)
        assert found.high_watermark == 3
        assert [r.value for r in records.decode(found.records or b"")] == [b"c"]


def test_an_old_client_gets_the_format_it_knows() -> None:
    with FakeCluster(topics={"orders": 1}) as cluster, RawClient(cluster.address(1)) as client:
        cluster.append(TP, batch(b"new"))
        assert produce(client, batch(b"old", b"older", magic=0), version=0) == (0, 1)
        for version, magic in ((0, 0), (2, 1)):
            data = fetch(client, 0, version=version).records or b""
            assert {b.magic for b in records.batches(data)} <= {0, magic}
            values = [(r.offset, r.value) for r in records.decode(data)]
            assert values == [(0, b"new"), (1, b"old"), (2, b"older")]


def test_a_damaged_batch_is_refused() -> None:
    with FakeCluster(topics={"orders": 1}) as cluster, RawClient(cluster.address(1)) as client:
        damaged = bytearray(batch(b"a"))
        damaged[-1] ^= 1
        assert produce(client, bytes(damaged)) == (2, -1)
        assert cluster.records(TP) == []


def test_a_repeat_is_acknowledged_with_its_old_offset_and_a_gap_refused() -> None:
    with FakeCluster(topics={"orders": 1}) as cluster, RawClient(cluster.address(1)) as client:

        def send(sequence: int, epoch: int = 0) -> tuple[int, int]:
            options = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": sequence}
            return produce(client, batch(b"a", b"b", **options))

        assert [send(n) for n in (0, 2, 4, 6, 8, 10)] == [(0, n) for n in (0, 2, 4, 6, 8, 10)]
        assert send(10) == (0, 10)
        assert send(2) == (0, 2)  # the oldest of five
        assert send(0) == (45, -1)  # older than what is remembered
        assert send(14) == (45, -1)
        assert send(1, epoch=1) == (45, -1)
        assert send(0, epoch=1) == (0, 12)
        assert send(12, epoch=0) == (47, -1)
        cluster.forget_producer(TP, 7)
        assert send(99) == (0, 14)
        assert len(cluster.records(TP)) == 16


def test_a_fetch_waits_for_what_is_produced() -> None:
    with (
        FakeCluster(topics={"orders": 1}) as cluster,
        RawClient(cluster.address(1)) as reader,
        RawClient(cluster.address(1)) as writer,
    ):
        reader.send(fetch_request(0, max_wait_ms=10_000), 11)
        cluster.await_request("Fetch")
        assert produce(writer, batch(b"a")) == (0, 0)
        frame = reader.receive_frame()
        assert b"a" in frame


def test_a_waiting_fetch_does_not_hold_up_the_end() -> None:
    with FakeCluster(topics={"orders": 1}) as cluster, RawClient(cluster.address(1)) as client:
        client.send(fetch_request(0, max_wait_ms=600_000), 11)
        cluster.await_request("Fetch")
        cluster.close()
        with pytest.raises(EOFError):
            client.receive_frame()
    assert not [thread for thread in threading.enumerate() if "fake broker" in thread.name]


def test_an_unknown_version_of_api_versions_is_answered_in_v0() -> None:
    speaks = {"ApiVersions": 2}
    with FakeCluster(speaks=speaks) as cluster, RawClient(cluster.address(1)) as client:
        client.send(ApiVersionsRequest(client_software_name="raw"), 3)
        answer = ApiVersionsResponse.decode(client.receive_frame()[4:], 0)
        own = only(answer.api_keys)
        assert (answer.error_code, own.api_key, own.max_version) == (35, 18, 2)
