"""A batch as it lies in a fetch response or a log: its header, and where its records are."""

from __future__ import annotations

from collections.abc import Sized
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from kclient.compression import DEFAULT_MAX_OUTPUT, Data, decompress
from kclient.errors import CorruptRecord, MissingCodec, ProtocolError, SerializationError
from kclient.types import Record, TimestampType

HEADER = Struct(">qiibIhiqqqhii")
"""Batch v2: base offset, length, leader epoch, magic, CRC, attributes, last offset delta,
base and maximum timestamp, producer id and epoch, base sequence, record count."""

HEADER_SIZE = HEADER.size
"""Bytes before the records of a batch v2."""

LENGTH_END = 12
"""Bytes up to and including the length field, in every format; the length counts the rest."""

CRC_END = 21
"""Where the part of batch v2 that its CRC covers begins."""

OFFSET_LIMIT = (1 << 63) - (1 << 32)
"""Batches begin at offsets below this, so that every offset in them fits 64 bits."""

SMALLEST_RECORD = 7
"""Bytes of a record of batch v2 that holds nothing."""

INT32_MAX = (1 << 31) - 1

INT64_LIMIT = 1 << 63

CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20


_TIMESTAMP_TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)


class RecordBatch(NamedTuple):
    """One batch of format 2, one compressed message set, or a run of plain old messages.

    A fetcher continues at ``last_offset + 1``, which may lie beyond the last record that
    compaction left. A compressed message set (``magic`` below 2) does not say its first
    offset and its record count: both are -1. ``section`` is the part that holds the records, still
    compressed; timestamps are in ms since the epoch, -1 if unknown.
    """

    topic: str
    partition: int
    magic: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    section: memoryview

    @property
    def codec(self) -> int:
        """The compression codec's number, 0 for none."""
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction, be it as data or as its marker."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are the cluster's own markers, not a user's."""
        return bool(self.attributes & CONTROL)

    @property
    def timestamp_type(self) -> TimestampType:
        """Who set the timestamps; with LOG_APPEND_TIME all records have the maximum."""
        if self.magic == 0:
            return TimestampType.NONE
        return _TIMESTAMP_TYPES[self.attributes >> 3 & 1]


class ControlType(IntEnum):
    """What a control record says. Numbers from newer brokers may be missing here."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_KEY = Struct(">hh")


def control_type(record: Record) -> int:
    """Tell what a record of a control batch marks: a ControlType, or a newer number.

    Raises CorruptRecord if its key is too short to say.
    """
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise CorruptRecord(
            f"control record without a type in {_place(record.topic, record.partition)}"
            f" at offset {record.offset}",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
    number: int = _CONTROL_KEY.unpack_from(record.key)[1]
    return number


def corrupt(topic: str, partition: int, offset: int, why: str) -> CorruptRecord:
    """Make the error for damage at ``offset``, the first of a batch where that is known."""
    return CorruptRecord(
        f"{_place(topic, partition)}, batch at offset {offset}: {why}",
        topic=topic,
        partition=partition,
        offset=offset,
    )


def corrupt_batch(batch: RecordBatch, why: str) -> CorruptRecord:
    """Make the error for damage in ``batch``."""
    return corrupt(batch.topic, batch.partition, _first_known_offset(batch), why)


def decompressed(
    batch: RecordBatch, data: memoryview, max_output: int = DEFAULT_MAX_OUTPUT
) -> Data:
    """Decompress ``data``, the payload of ``batch``, to at most ``max_output`` bytes.

    What is not compressed comes back as it is. Raises CorruptRecord or MissingCodec, with
    topic, partition and offset.
    """
    if not batch.codec:
        return data
    try:
        return decompress(data, batch.codec, magic=batch.magic, max_output=max_output)
    except CorruptRecord as error:
        raise corrupt_batch(batch, str(error)) from None
    except MissingCodec as error:
        offset = _first_known_offset(batch)
        context = {**vars(error), "topic": batch.topic, "partition": batch.partition}
        place = _place(batch.topic, batch.partition)
        raise MissingCodec(f"{place}, offset {offset}: {error}", offset=offset, **context) from None


def not_bytes(data: object) -> SerializationError:
    """Make the error for a key or value that is something else."""
    return SerializationError(f"keys and values are bytes or None, not {type(data).__name__}")


def not_a_pair(item: object) -> SerializationError:
    """Make the error for what cannot be taken apart into key and value."""
    return SerializationError(f"a pair is a key and a value, not {type(item).__name__}")


def record_too_large(size: int) -> ProtocolError:
    """Make the error for a record that no batch can hold."""
    return ProtocolError(f"a record of {size} bytes: the format allows {INT32_MAX}")


def bad_timestamp(timestamp: int) -> ProtocolError:
    """Make the error for a timestamp that the format cannot hold."""
    return ProtocolError(f"the timestamp {timestamp} does not fit 64 bits")


def indexes(items: Sized, start: int) -> range:
    """The indexes of a run from ``start`` on; raises IndexError if that is before the first."""
    if start < 0:
        raise IndexError(f"a run cannot start at index {start}")
    return range(start, len(items))


def wrap(number: int) -> int:
    """Wrap around as Java's 64-bit sums do: deltas of extreme timestamps rely on it."""
    return (number + INT64_LIMIT) % (2 * INT64_LIMIT) - INT64_LIMIT


def _first_known_offset(batch: RecordBatch) -> int:
    return batch.last_offset if batch.base_offset < 0 else batch.base_offset


def _place(topic: str, partition: int) -> str:
    return f"{topic or '(unnamed topic)'}[{'?' if partition < 0 else partition}]"
