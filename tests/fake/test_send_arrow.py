"""Arrow columns written: every row once, in order, where its key or column says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from kclient import Producer, TopicPartition
from kclient.errors import DeliveryError, RecordTooLarge, SerializationError, TopicNotFound
from kclient.records.murmur import murmur2
from kclient.testing import FakeCluster
from kclient.testing.fake import close_after, error_code

COUNT = 500
PARTITIONS = 3


@pytest.fixture
def cluster(fake_cluster: Callable[..., FakeCluster]) -> FakeCluster:
    return fake_cluster(brokers=2, topics={"orders": PARTITIONS})


@pytest.fixture
def producer(cluster: FakeCluster) -> Iterator[Producer]:
    with Producer(cluster.bootstrap_servers, batch_size=2000, retry_backoff_ms=10) as made:
        yield made


def values(cluster: FakeCluster, partition: int) -> list[bytes | None]:
    return [record.value for record in cluster.records(TopicPartition("orders", partition))]


def table(**columns: Any) -> Any:
    return pa.table({"value": [b"%d" % number for number in range(COUNT)], **columns})


def test_rows_without_a_place_are_spread_and_none_is_lost(
    cluster: FakeCluster, producer: Producer
) -> None:
    report = producer.send_arrow("orders", table())
    assert report.count == COUNT
    found = [value for number in range(PARTITIONS) for value in values(cluster, number)]
    assert sorted(found, key=lambda value: int(value or b"0")) == table()["value"].to_pylist()
    assert sum(last - first + 1 for first, last in report.offsets.values()) == COUNT


def test_keys_go_where_java_puts_them_in_order(cluster: FakeCluster, producer: Producer) -> None:
    keys = [None if number % 9 == 8 else b"key %d" % (number % 20) for number in range(COUNT)]
    producer.send_arrow("orders", table(key=keys).to_batches(max_chunksize=64))
    for number in range(PARTITIONS):
        records = cluster.records(TopicPartition("orders", number))
        keyed = [record for record in records if record.key is not None]
        assert all(
            (murmur2(record.key or b"") & 0x7FFFFFFF) % PARTITIONS == number for record in keyed
        )
        for key in {record.key for record in keyed}:
            order = [int(record.value or b"") for record in keyed if record.key == key]
            assert order == sorted(order)
    assert sum(len(values(cluster, number)) for number in range(PARTITIONS)) == COUNT


def test_the_partition_column_wins(cluster: FakeCluster, producer: Producer) -> None:
    given = [number % 2 if number < 400 else None for number in range(COUNT)]
    producer.send_arrow("orders", table(partition=given, key=[b"k"] * COUNT))
    by_key = (murmur2(b"k") & 0x7FFFFFFF) % PARTITIONS
    rest = [b"%d" % number for number in range(400, COUNT)]
    for number in range(PARTITIONS):
        expected = [b"%d" % each for each in range(400) if each % 2 == number and number < 2]
        assert values(cluster, number) == expected + (rest if number == by_key else [])


def test_every_column(cluster: FakeCluster, producer: Producer) -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "a", "value": b"1"}, {"key": "b", "value": None}], None], kind)
    columns = {
        "key": pa.array(["text", None]),
        "value": pa.array([None, b"v"], pa.binary()),
        "partition": [2, 2],
        "timestamp": pa.array([1_500_000, 1_501_000], pa.timestamp("us", "UTC")),
        "headers": headers,
    }
    producer.send_arrow("orders", pa.record_batch(columns))
    first, second = cluster.records(TopicPartition("orders", 2))
    assert (first.key, first.value, first.timestamp) == (b"text", None, 1500)
    assert list(first.headers) == [("a", b"1"), ("b", None)]
    assert (second.key, second.value, second.timestamp) == (None, b"v", 1501)
    assert not second.headers


def test_faults_cost_no_row_and_double_none(cluster: FakeCluster, producer: Producer) -> None:
    cluster.on("Produce", close_after(), nth=2)
    cluster.on("Produce", error_code(6), nth=4)
    producer.send_arrow("orders", table(key=[b"%d" % number for number in range(COUNT)]))
    found = [value for number in range(PARTITIONS) for value in values(cluster, number)]
    assert sorted(found, key=lambda value: int(value or b"")) == table()["value"].to_pylist()


def test_no_rows(producer: Producer) -> None:
    assert producer.send_arrow("orders", table().slice(0, 0)).count == 0


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pa.table({"key": [b"k"]}), "no column 'value'"),
        (table(colour=["red"] * COUNT), "column 'colour' cannot be written"),
        (pa.table({"value": [1, 2]}), "int64"),
        ([b"value"], "not bytes"),
        ({"value": [b"v"]}, "not dict"),
        (table(partition=["x"] * COUNT), "no whole number"),
    ],
)
def test_what_cannot_be_written(producer: Producer, data: Any, said: str) -> None:
    with pytest.raises(SerializationError) as caught:
        producer.send_arrow("orders", data)
    assert said in str(caught.value)


def test_errors_of_delivery(cluster: FakeCluster, producer: Producer) -> None:
    with pytest.raises(TopicNotFound, match="no partition 7"):
        producer.send_arrow("orders", table(partition=[7] * COUNT))
    with pytest.raises(RecordTooLarge):
        producer.send_arrow("orders", pa.table({"value": [b"x" * (2 << 20)]}))
    cluster.on("Produce", error_code(29), times=None)
    with pytest.raises(DeliveryError, match="TOPIC_AUTHORIZATION_FAILED"):
        producer.send_arrow("orders", table())
