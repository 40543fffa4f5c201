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


def produce_by_librdkafka(
    cluster: FakeCluster, count: int = COUNT, *, headers: bool = True, **options: object
) -> None:
    names = {name.replace("_", "."): value for name, value in options.items()}
    failures: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, **names})
    for number in range(count):
        producer.produce(
            "orders",
            b"%d" % number,
            key=b"k%d" % number,
            headers=[("h", b"1")] if headers else [],
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failures == []


def read_so_far(consumer: confluent_kafka.Consumer) -> int:
    """Records before the positions of the consumer's partitions."""
    return sum(max(tp.offset, 0) for tp in consumer.position(consumer.assignment()))


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
        produce_by_librdkafka(cluster, compression_type=compression, enable_idempotence=True)
        assert values(cluster, 3) == EXPECTED
        assert cluster.malformed == []


def test_kafka_python_produces_and_reads() -> None:
    with FakeCluster(brokers=2, topics={"orders": 2}) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
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


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky", "KIP-848"])
def test_librdkafka_shares_a_topic_in_a_group(strategy: str) -> None:
    with FakeCluster(brokers=2, topics={"orders": 4}, group_heartbeat_interval_ms=100) as cluster:
        produce_by_librdkafka(cluster)
        options: dict[str, object] = {"enable_auto_commit": False}
        if strategy == "KIP-848":
            options["group_protocol"] = "consumer"
        else:
            options |= {"partition_assignment_strategy": strategy, "heartbeat_interval_ms": 100}
        found: list[bytes] = []

        def poll(consumer: confluent_kafka.Consumer) -> None:
            message = consumer.poll(0.05)
            if message is not None:
                assert message.error() is None
                found.append(message.value() or b"")

        with (
            librdkafka_consumer(cluster, **options) as one,
            librdkafka_consumer(cluster, **options) as two,
        ):
            one.subscribe(["orders"])
            poll_until(lambda: poll(one), lambda: len(one.assignment()) == 4)
            two.subscribe(["orders"])

            def both() -> None:
                poll(one)
                poll(two)

            poll_until(both, lambda: [len(c.assignment()) for c in (one, two)] == [2, 2])
            poll_until(both, lambda: read_so_far(one) + read_so_far(two) == COUNT)
            assert set(found) == set(EXPECTED)
            for consumer in (one, two):
                consumer.commit(asynchronous=False)
            committed = one.committed(
                [confluent_kafka.TopicPartition("orders", index) for index in range(4)], 10
            )
            ends = [len(cluster.records(TopicPartition("orders", index))) for index in range(4)]
            assert [tp.offset for tp in committed] == ends
        assert cluster.malformed == []


def test_kafka_python_joins_a_group_and_commits() -> None:
    with FakeCluster(brokers=2, topics={"orders": 2}) as cluster:
        produce_by_librdkafka(cluster)
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            group_id="readers",
        )
        found: list[bytes] = []

        def poll() -> None:
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(record.value for record in records)

        poll_until(poll, lambda: len(found) >= COUNT)
        consumer.commit()
        ends = [len(cluster.records(TopicPartition("orders", index))) for index in range(2)]
        assert [consumer.committed(TheirTopicPartition("orders", n)) for n in range(2)] == ends
        consumer.close()
        assert cluster.requests("LeaveGroup")
        assert cluster.malformed == []


@pytest.mark.parametrize("transaction_version", [0, 2])
def test_librdkafka_writes_in_transactions(transaction_version: int) -> None:
    with FakeCluster(
        brokers=2, topics={"orders": 1}, transaction_version=transaction_version
    ) as cluster:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"}
        )
        producer.init_transactions(10)
        for value, commit in ((b"1", True), (b"2", False), (b"3", True)):
            producer.begin_transaction()
            producer.produce("orders", value)
            if commit:
                producer.commit_transaction(10)
            else:
                assert producer.flush(10) == 0
                producer.abort_transaction(10)
        assert [r.value for r in cluster.records(TP)] == [b"1", b"2", b"3"]
        with librdkafka_consumer(cluster, isolation_level="read_committed") as consumer:
            consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
            found: list[bytes] = []

            def poll() -> None:
                message = consumer.poll(0.1)
                if message is not None:
                    found.append(message.value() or b"")

            poll_until(poll, lambda: len(found) >= 2)
        assert found == [b"1", b"3"]
        assert cluster.malformed == []


def test_librdkafka_commits_offsets_in_a_transaction() -> None:
    with FakeCluster(brokers=2, topics={"orders": 1}) as cluster:
        produce_by_librdkafka(cluster, 10)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "t"}
        )
        producer.init_transactions(10)
        with librdkafka_consumer(cluster, enable_auto_commit=False) as consumer:
            consumer.subscribe(["orders"])
            found: list[object] = []

            def poll() -> None:
                message = consumer.poll(0.1)
                if message is not None:
                    found.append(message)

            poll_until(poll, lambda: len(found) == 10)
            where = [confluent_kafka.TopicPartition("orders", 0)]
            for commit, expected in ((False, -1001), (True, 10)):
                producer.begin_transaction()
                producer.send_offsets_to_transaction(
                    consumer.position(where), consumer.consumer_group_metadata(), 10
                )
                if commit:
                    producer.commit_transaction(10)
                else:
                    producer.abort_transaction(10)
                assert consumer.committed(where, 10)[0].offset == expected
        assert cluster.malformed == []


def test_librdkafka_with_a_broker_of_0_10() -> None:
    """Message sets instead of batches, and none of the newer APIs."""
    speaks = {
        **dict.fromkeys(("InitProducerId", "OffsetForLeaderEpoch", "DescribeCluster"), None),
        "Produce": 2,
        "Fetch": 2,
        "ListOffsets": 0,
        "Metadata": 1,
        "ApiVersions": 0,
        "OffsetCommit": 2,
        "OffsetFetch": 1,
        "FindCoordinator": 0,
        "JoinGroup": 0,
        "SyncGroup": 0,
        "Heartbeat": 0,
        "LeaveGroup": 0,
    }
    with FakeCluster(brokers=2, topics={"orders": 2}, speaks=speaks) as cluster:
        produce_by_librdkafka(cluster, compression_type="snappy", headers=False)
        assert values(cluster, 2) == EXPECTED
        with librdkafka_consumer(cluster) as consumer:
            consumer.subscribe(["orders"])
            found: list[bytes] = []

            def poll() -> None:
                message = consumer.poll(0.2)
                if message is not None:
                    assert message.error() is None
                    found.append(message.value() or b"")

            poll_until(poll, lambda: len(found) >= COUNT)
        assert sorted(found, key=int) == EXPECTED
        assert {seen.version for seen in cluster.requests("Produce")} == {2}
        assert {seen.version for seen in cluster.requests("Fetch")} == {2}
        assert cluster.malformed == []


def test_librdkafka_authenticates_again_before_its_session_ends() -> None:
    with FakeCluster(
        topics={"orders": 1}, sasl={"ann": "secret"}, session_lifetime_ms=1500
    ) as cluster:
        sasl = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": "ann",
            "sasl_password": "secret",
        }
        with librdkafka_consumer(cluster, **sasl) as consumer:
            consumer.subscribe(["orders"])

            def poll() -> None:
                consumer.poll(0.1)

            def has_renewed() -> bool:
                used = [seen.connection for seen in cluster.requests("SaslAuthenticate")]
                return len(used) > len(set(used))

            poll_until(poll, has_renewed)
        assert cluster.malformed == []
