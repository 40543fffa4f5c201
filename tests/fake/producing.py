"""Producers against the fake cluster, and what its logs hold afterwards."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from kclient import Producer, Record, TopicPartition
from kclient.records import RecordBatch, batches
from kclient.testing import FakeCluster
from kclient.testing.fake import SeenRequest

QUICK: dict[str, Any] = {
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
    "reconnect_backoff_max_ms": 20,
}
"""Options with which a test does not wait for long."""
TOPIC = "orders"
TP = TopicPartition(TOPIC, 0)


def quick(cluster: FakeCluster, **options: Any) -> Producer:
    return Producer(cluster.bootstrap_servers, **{**QUICK, **options})


def stored(cluster: FakeCluster, partitions: int, topic: str = TOPIC) -> list[Record]:
    """Every record of a topic, partition by partition."""
    return [
        record
        for number in range(partitions)
        for record in cluster.records(TopicPartition(topic, number))
    ]


def values(cluster: FakeCluster, tp: TopicPartition = TP) -> list[bytes | None]:
    return [record.value for record in cluster.records(tp)]


def check_ledger(acknowledged: Iterable[tuple[bytes, bytes]], log: Iterable[Record]) -> None:
    """Each acknowledged (key, value) is in the log exactly once, in order for its key.

    What was not acknowledged may be there too, but not twice.
    """
    written: dict[bytes, list[bytes]] = defaultdict(list)
    for record in log:
        assert record.key is not None
        assert record.value is not None
        written[record.key].append(record.value)
    for key, found in written.items():
        assert len(found) == len(set(found)), f"{key!r} has records twice"
    expected: dict[bytes, list[bytes]] = defaultdict(list)
    for key, value in acknowledged:
        expected[key].append(value)
    for key, wanted in expected.items():
        found = [value for value in written[key] if value in set(wanted)]
        assert found == wanted, f"{key!r} has lost or reordered records"


def produced(seen: SeenRequest) -> list[RecordBatch]:
    """The batches in a Produce request."""
    message: Any = seen.message
    return [
        batch
        for topic in message.topic_data
        for partition in topic.partition_data
        for batch in batches(bytes(partition.records))
    ]


def eventually(happened: Callable[[], object], what: str, seconds: float = 10.0) -> None:
    """Wait for something that no event tells of."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.001)
