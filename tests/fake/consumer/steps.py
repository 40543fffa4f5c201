"""What tests of the consumer do over and over: fill logs, make consumers, read so many records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from kclient import Consumer, ProducerRecord, Record, TopicPartition, records
from kclient.testing import FakeCluster

TP = TopicPartition("orders", 0)
PATIENCE = 20.0
T = TypeVar("T")


def batch(*values: bytes, timestamp: int = 1_000, **options: Any) -> bytes:
    return records.encode(
        [ProducerRecord("orders", value, timestamp_ms=timestamp) for value in values], **options
    )


def fill(
    cluster: FakeCluster, count: int, tp: TopicPartition = TP, *, size: int = 5
) -> list[bytes]:
    """Append ``count`` records in batches of ``size``; their values say where they are."""
    end = len(cluster.records(tp))
    values = [b"%d/%d" % (tp.partition, end + number) for number in range(count)]
    for start in range(0, count, size):
        cluster.append(tp, batch(*values[start : start + size]))
    return values


def consumer_of(cluster: FakeCluster, **options: Any) -> Consumer:
    """A consumer whose waits are short, from the beginning unless told otherwise."""
    quick: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 10,
        "retry_backoff_max_ms": 100,
        "reconnect_backoff_ms": 10,
        "reconnect_backoff_max_ms": 100,
        "heartbeat_interval_ms": 100,
    }
    return Consumer(cluster.bootstrap_servers, **{**quick, **options})


def polls(consumer: Consumer, seconds: float = PATIENCE) -> Iterator[list[Record]]:
    """What polls return, until the patience of a test is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield consumer.poll(0.1)
    raise AssertionError(f"not within {seconds} s; {consumer.health()}")


def read(consumer: Consumer, count: int, seconds: float = PATIENCE) -> list[bytes]:
    """The values of the next ``count`` records, and not one more."""
    got: list[bytes] = []
    for some in polls(consumer, seconds):
        got += [record.value or b"" for record in some]
        if len(got) >= count:
            assert len(got) == count, got
            return got
    raise AssertionError


def poll_until(consumer: Consumer, is_done: Callable[[], bool]) -> list[Record]:
    """Poll until it is so; the records that came meanwhile."""
    got: list[Record] = []
    for some in polls(consumer):
        got += some
        if is_done():
            return got
    raise AssertionError


def eventually(is_done: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Look until it is so, for what no event tells."""
    end = time.monotonic() + seconds
    while not (found := is_done()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)
    return found
