"""What tests against real brokers do over and over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Producer as LibrdkafkaProducer

from kclient import Admin, Consumer, Record, TopicPartition

from ..exchange import new_name

PATIENCE = 40.0


def new_topic(
    servers: str,
    partitions: int = 1,
    replication: int = 1,
    configs: Mapping[str, str] | None = None,
) -> str:
    """Make a topic of a new name."""
    name = new_name("consumed")
    with Admin(servers) as admin:
        admin.create_topic(name, partitions, replication, configs=dict(configs or {}))
    return name


def write(
    servers: str,
    topic: str,
    values: Sequence[bytes],
    *,
    partition: int = -1,
    timestamps: Sequence[int] = (),
    config: Mapping[str, Any] | None = None,
) -> None:
    """Write records by librdkafka, round robin over partitions unless told which."""
    producer = LibrdkafkaProducer({"bootstrap.servers": servers, "linger.ms": 20, **(config or {})})
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=partition if partition >= 0 else -1,
            timestamp=timestamps[number] if timestamps else 0,
        )
        producer.poll(0)
    assert producer.flush(30) == 0


def consumer_of(servers: str, **options: Any) -> Consumer:
    """From the beginning unless told otherwise."""
    return Consumer(servers, **{"auto_offset_reset": "earliest", **options})


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(count)]


def polls(*consumers: Consumer, seconds: float = PATIENCE) -> Iterator[list[Record]]:
    """What polls of the consumers in turn return, until the patience of a test is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for consumer in consumers:
            yield consumer.poll(0.2 / len(consumers))
    raise AssertionError(f"not within {seconds} s; {[each.health() for each in consumers]}")


def read(*consumers: Consumer, count: int, seconds: float = PATIENCE) -> list[bytes]:
    """The values of the next ``count`` records."""
    got: list[bytes] = []
    for some in polls(*consumers, seconds=seconds):
        got += [record.value or b"" for record in some]
        if len(got) >= count:
            return got
    raise AssertionError


def poll_until(
    is_done: Callable[[], bool], *consumers: Consumer, seconds: float = PATIENCE
) -> list[Record]:
    """Poll until it is so; the records that came meanwhile."""
    got: list[Record] = []
    for some in polls(*consumers, seconds=seconds):
        got += some
        if is_done():
            return got
    raise AssertionError
