"""What other clients read of what ours wrote."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import confluent_kafka

from kclient.testing import LocalKafka


class Read(NamedTuple):
    """A record as confluent-kafka gives it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


def read_all(
    bootstrap_servers: str, topic: str, *, committed: bool = True, **options: Any
) -> list[Read]:
    """Every record of a topic, in order for each partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "reading",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            **options,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])
        found: list[Read] = []
        ended: set[int | None] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(30)
            assert message is not None, "nothing comes any more"
            error = message.error()
            if error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                assert error is None, error
                found.append(_read(message))
        return sorted(found)
    finally:
        consumer.close()


def _read(message: Any) -> Read:
    return Read(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        list(message.headers() or ()),
        message.timestamp()[1],
    )


def by_key(records: list[Read]) -> dict[bytes | None, list[bytes | None]]:
    """Values in order, for each key."""
    found: dict[bytes | None, list[bytes | None]] = defaultdict(list)
    for record in records:
        found[record.key].append(record.value)
    return dict(found)


def create_topic(kafka: LocalKafka | str, name: str, partitions: int = 1, **configs: str) -> str:
    """Make a topic; returns its name."""
    from kclient import Admin, NewTopic

    address = kafka if isinstance(kafka, str) else kafka.bootstrap_servers
    with Admin(address) as admin:
        topic = NewTopic(
            name,
            num_partitions=partitions,
            configs={key.replace("_", "."): value for key, value in configs.items()},
        )
        admin.create_topics([topic])
    return name
