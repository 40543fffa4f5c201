"""A broker of some age, and the small things every ability needs of it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from kclient import Consumer, Producer, ProducerRecord, Record, TopicPartition
from kclient.testing.releases import parse_version

SECONDS = 30.0
"""How long records may take to come back."""


class Age(NamedTuple):
    """A broker that runs, and which Kafka it is."""

    servers: str
    version: str

    @property
    def number(self) -> tuple[int, ...]:
        """The version as integers, for comparing."""
        return parse_version(self.version)

    @property
    def magic(self) -> int:
        """The message format it stores."""
        return 0 if self.number < (0, 10) else 1 if self.number < (0, 11) else 2

    def write(self, records: Sequence[ProducerRecord], codec: str | None = None) -> TopicPartition:
        """Write records to a topic of their own, which the broker makes when it is asked for."""
        topic = new_name()
        with Producer(self.servers, compression_type=codec) as producer:
            report = producer.send_many(topic, records)
        assert report.count == len(records)
        return TopicPartition(topic, 0)

    def read(self, tp: TopicPartition, count: int) -> list[Record]:
        """The first ``count`` records of a partition."""
        with Consumer(self.servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([tp])
            return take(consumer, count)


def take(consumer: Consumer, count: int) -> list[Record]:
    """Poll until there are ``count`` records."""
    found: list[Record] = []
    end = time.monotonic() + SECONDS
    while len(found) < count:
        assert time.monotonic() < end, f"{len(found)} of {count} records came in {SECONDS:g} s"
        found += consumer.poll(1.0)
    assert len(found) == count
    return found


def new_name() -> str:
    """A name that nobody has used."""
    return f"age-{uuid.uuid4().hex[:12]}"


def now_ms() -> int:
    """A timestamp for records: much older ones fall to the broker's retention at once."""
    return time.time_ns() // 1_000_000


def plain(count: int = 5, first_ms: int | None = None) -> list[ProducerRecord]:
    """Records with keys, a second apart."""
    start = now_ms() if first_ms is None else first_ms
    return [
        ProducerRecord("", b"value %d" % n, b"key %d" % n, timestamp_ms=start + 1000 * n)
        for n in range(count)
    ]
