"""Clients that are known to recover do recover from scripted faults, and lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiokafka
import confluent_kafka
import pytest

from kclient import TopicPartition
from kclient.testing import FakeCluster
from kclient.testing.fake import (
    Fault,
    close_after,
    close_before,
    close_midway,
    delay,
    drop,
    error_code,
    garbage,
    move_coordinator,
    move_leader,
    throttle,
    wrong_correlation_id,
)

TP = TopicPartition("orders", 0)
COUNT = 30
EXPECTED = [b"%d" % number for number in range(COUNT)]
Start = Callable[..., FakeCluster]


@pytest.fixture
def cluster(fake_cluster: Start) -> FakeCluster:
    return fake_cluster(brokers=2, topics={"orders": 1})


def produce(cluster: FakeCluster, *, in_flight: int = 5) -> None:
    """A request for each record, by librdkafka, idempotent."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "enable.idempotence": True,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "socket.timeout.ms": 1000,
            "log.connection.close": False,
            "batch.num.messages": 1,
            "max.in.flight": in_flight,
        }
    )
    failures: list[object] = []
    for value in EXPECTED:
        producer.produce(
            "orders",
            value,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failures == []


@pytest.mark.parametrize(
    "faults",
    [
        (close_before(),),
        (close_after(),),
        (close_midway(),),
        (error_code(6), move_leader(TP, 2)),
        (error_code(7, processed=True),),
        (error_code(19),),
        (delay(0.2),),
        (throttle(50),),
        (wrong_correlation_id(), close_after()),
    ],
    ids=str,
)
def test_an_idempotent_producer_delivers_exactly_once(
    cluster: FakeCluster, faults: tuple[Fault, ...]
) -> None:
    fault = cluster.on("Produce", *faults, nth=2)
    produce(cluster)
    fault.await_hit(1)
    assert [record.value for record in cluster.records(TP)] == EXPECTED


def test_a_repeat_after_a_lost_answer_is_not_stored_twice(cluster: FakeCluster) -> None:
    # One in flight: others would be answered meanwhile, and the repeat be too old to be known.
    fault = cluster.on("Produce", drop(processed=True), nth=2)
    produce(cluster, in_flight=1)
    fault.await_hit(1)
    assert [record.value for record in cluster.records(TP)] == EXPECTED


def test_a_producer_goes_on_after_its_leader_died(cluster: FakeCluster) -> None:
    produce(cluster)
    cluster.kill(cluster.leader(TP))
    produce(cluster)
    assert [record.value for record in cluster.records(TP)] == EXPECTED * 2


def read(cluster: FakeCluster) -> list[bytes]:
    """Everything, in a group, by librdkafka."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 20,
            "heartbeat.interval.ms": 50,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "fetch.error.backoff.ms": 10,
            "topic.metadata.refresh.fast.interval.ms": 10,
            "log.connection.close": False,
        }
    )
    consumer.subscribe(["orders"])
    found: list[bytes] = []
    try:
        for _ in range(300):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
            if len(found) >= COUNT:
                break
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize(
    ("api", "faults"),
    [
        ("Fetch", (error_code(6), move_leader(TP, 2))),
        ("Fetch", (close_before(),)),
        ("Fetch", (error_code(71),)),
        ("JoinGroup", (error_code(16), move_coordinator("readers", 1))),
        ("JoinGroup", (error_code(14),)),
        ("SyncGroup", (error_code(27),)),
        ("OffsetFetch", (error_code(14),)),
        ("FindCoordinator", (error_code(15),)),
        ("ListOffsets", (error_code(6),)),
        ("Metadata", (close_after(),)),
    ],
    ids=str,
)
def test_a_consumer_gets_everything_all_the_same(
    cluster: FakeCluster, api: str, faults: tuple[Fault, ...]
) -> None:
    produce(cluster)
    cluster.move_coordinator("readers", 2)
    fault = cluster.on(api, *faults)
    assert read(cluster) == EXPECTED
    fault.await_hit(1)


def test_a_consumer_survives_answers_that_mean_nothing(cluster: FakeCluster) -> None:
    produce(cluster)
    fault = cluster.on("Metadata", garbage(), nth=2)
    assert read(cluster) == EXPECTED
    assert len(fault.hits) <= 1


def test_aiokafka_writes_and_reads_in_a_group(cluster: FakeCluster) -> None:
    async def run() -> list[bytes]:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True
        )
        await producer.start()
        for value in EXPECTED:
            await producer.send_and_wait("orders", value)
        await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="readers",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        found = [(await asyncio.wait_for(consumer.getone(), 20)).value for _ in range(COUNT)]
        await consumer.stop()
        return found

    assert asyncio.run(run()) == EXPECTED
    assert cluster.committed("readers") == {TP: COUNT}
    assert cluster.malformed == []
