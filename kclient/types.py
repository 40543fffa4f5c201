"""Plain values that cross layers and reach users: records, partitions, where a record landed."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

Header = tuple[str, "bytes | None"]
"""A record header: its key and its value."""


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


class TimestampType(IntEnum):
    """Who set a record's timestamp. Message format v0 has none."""

    NONE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class Record(NamedTuple):
    """A record read from a partition. ``timestamp`` is in ms since the epoch, -1 if unknown.

    A named tuple, because on the hot path it is the cheapest object that has names.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    leader_epoch: int = -1


class Batch(NamedTuple):
    """Records of one partition, in order."""

    tp: TopicPartition
    records: list[Record]


class ProducerRecord(NamedTuple):
    """A record to write. ``timestamp_ms`` None means "now, when it is sent"."""

    topic: str
    value: bytes | None = None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class RecordMetadata(NamedTuple):
    """Where a record landed. ``offset`` and ``timestamp`` (ms) are -1 if the broker did not say."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class OffsetAndMetadata(NamedTuple):
    """An offset to commit: that of the next record to read. ``metadata`` is the user's text."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupMetadata(NamedTuple):
    """A member of a consumer group, for offsets inside a transaction (KIP-447)."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
