"""The other side of a test: records written and read by librdkafka."""

from __future__ import annotations

from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, Message, Producer, TopicPartition

from ..exchange import new_name

Config = dict[str, Any]


def write(
    servers: str,
    topic: str,
    count: int,
    config: Config | None = None,
    *,
    partition: int = 0,
    size: int = 1,
) -> list[int]:
    """Write ``count`` records of ``size`` bytes to a partition; return their offsets."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        offsets.append(offset)

    producer = Producer({"bootstrap.servers": servers, **(config or {})})
    for _ in range(count):
        producer.produce(topic, b"x" * size, partition=partition, on_delivery=delivered)
    assert producer.flush(30) == 0
    return offsets


def read(
    servers: str, topic: str, config: Config | None = None, *, count: int, partition: int = 0
) -> list[int]:
    """The offsets of the first records that a consumer gets, who starts at the beginning.

    One that has a ``group.id`` starts where its group is.
    """
    given = config or {}
    own = {"group.id": new_name("reader"), "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": servers, **own, **given})
    try:
        start = OFFSET_INVALID if "group.id" in given else 0
        consumer.assign([TopicPartition(topic, partition, start)])
        found = consumer.consume(count, 20)
        assert all(message.error() is None for message in found)
        return [offset for message in found if (offset := message.offset()) is not None]
    finally:
        consumer.close()
