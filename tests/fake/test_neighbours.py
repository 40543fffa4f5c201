"""The truth from outside: clients that were written for real brokers work with the fake."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest

from kclient import TopicPartition
from kclient.testing import FakeCluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # kafka-python reads its schemas by a deprecated call
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as TheirTopicPartition

COUNT = 200
TP = TopicPartition("orders", 0)


def poll_until(poll: Callable[[], None], is_done: Callable[[], bool]) -> None:
    """Call ``poll``, which waits a little itself, until done; 30 s at most."""
    end = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < end, "it never happened"
        poll()


@contextmanager
def librdkafka_consumer(
    cluster: FakeCluster, **options: object
) -> Iterator[confluent_kafka.Consumer]:
    names = {name.replace("_", "."): value for name, value in options.items()}
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "readers",
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 50,
        "log.connection.close": False,
        **names,
    }
    consumer = confluent_kafka.Consumer(config)
    try:
        yield consumer
    finally:
        consumer.close()


def produce_by_librdkafka(cluster: FakeCluster, count: int = COUNT, **options: object) -> None:
    names = {name.replace("_", "."): value for name, value in options.items()}
    failures: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, **names})
    for number in range(count):
        producer.produce(
            "orders",
            b"%d" % number,
            key=b"k%d" % number,
            headers=[("h", b"1")],
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failures == []


def values(cluster: FakeCluster, partitions: int) -> list[bytes]:
    found = [
        record.value or b""
        for index in range(partitions)
        for record in cluster.records(TopicPartition("orders", index))
    ]
    return sorted(found, key=int)


EXPECTED = [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_librdkafka_produces(compression: str) -> None:
    with FakeCluster(brokers=3, topics={"orders": 3}) as cluster:
        produce_by_librdkafka(cluster, compression_type=compression)
        assert values(cluster, 3) == EXPECTED
        assert cluster.malformed == []


def test_kafka_python_produces_and_reads() -> None:
    with FakeCluster(brokers=2, topics={"orders": 2}) as cluster:
        producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=False
        )
        for number in range(COUNT):
            producer.send("orders", b"%d" % number)
        producer.flush(30)
        producer.close(5)
        assert values(cluster, 2) == EXPECTED
        consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_id=None,
        )
        consumer.assign([TheirTopicPartition("orders", index) for index in range(2)])
        found: list[bytes] = []

        def poll() -> None:
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(record.value for record in records)

        poll_until(poll, lambda: len(found) >= COUNT)
        consumer.close()
        assert sorted(found, key=int) == EXPECTED
        assert cluster.malformed == []


def test_librdkafka_reads() -> None:
    with FakeCluster(brokers=3, topics={"orders": 3}) as cluster:
        produce_by_librdkafka(cluster)
        with librdkafka_consumer(cluster) as consumer:
            consumer.assign([confluent_kafka.TopicPartition("orders", n, 0) for n in range(3)])
            found: list[bytes] = []

            def poll() -> None:
                message = consumer.poll(0.2)
                if message is not None:
                    assert message.error() is None
                    found.append(message.value() or b"")

            poll_until(poll, lambda: len(found) >= COUNT)
        assert sorted(found, key=int) == EXPECTED
        assert cluster.malformed == []
