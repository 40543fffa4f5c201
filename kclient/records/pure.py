"""Record batch v2 in pure Python: the readable reference, and as fast as Python goes.

A record costs a microsecond or less each way, so both loops know the common shapes: short
varints are read in place and written from a table, and a record becomes a tuple at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crc32c import crc32c as crc32c

from kclient.compression import Compression, Data
from kclient.records.alike import LEAST_ALIKE as LEAST_ALIKE
from kclient.records.alike import read_alike
from kclient.records.batch import (
    INT64_LIMIT,
    LOG_APPEND_TIME,
    SMALLEST_RECORD,
    RecordBatch,
    corrupt_batch,
    wrap,
)
from kclient.records.murmur import murmur2 as murmur2
from kclient.records.murmur import murmur2_arrow as murmur2_arrow
from kclient.records.murmur import murmur2_partitions as murmur2_partitions
from kclient.records.pure_writer import PureBatchWriter
from kclient.types import Header, Record

NAME = "python"


class _Malformed(Exception):
    """What is wrong with a record; the caller knows where."""


def open_batch(compression: Compression) -> PureBatchWriter:
    """Start a batch v2."""
    return PureBatchWriter(compression)


def read_records(section: Data, batch: RecordBatch) -> list[Record]:
    """Read the records of a batch v2 from its decompressed ``section``.

    Raises CorruptRecord unless the section holds exactly the records that the header counts.
    """
    if batch.record_count * SMALLEST_RECORD > len(section):
        raise corrupt_batch(
            batch, f"{batch.record_count} records cannot be in {len(section)} bytes"
        )
    try:
        records, end = _read_section(bytes(section), batch)
    except IndexError:
        raise corrupt_batch(batch, "a record is cut short") from None
    except _Malformed as error:
        raise corrupt_batch(batch, str(error)) from None
    if end != len(section):
        raise corrupt_batch(batch, f"{end} bytes of records in a section of {len(section)}")
    if records and records[-1].offset > batch.last_offset:
        raise corrupt_batch(batch, f"a record lies beyond the last offset {batch.last_offset}")
    if batch.attributes & LOG_APPEND_TIME:
        return _with_timestamps(records, [batch.max_timestamp] * len(records))
    if abs(batch.base_timestamp) > INT64_LIMIT // 2:
        return _with_timestamps(records, [wrap(record.timestamp) for record in records])
    return records


def read_arrow(batches: Iterable[tuple[RecordBatch, Data]]) -> Any:
    """Read batches v2, each with its decompressed section, into one ``pyarrow.Table``."""
    from kclient.records.arrow import table

    return table([r for batch, section in batches for r in read_records(section, batch)])


def _read_section(  # noqa: C901 - one loop for all shapes of a record
    buf: bytes, batch: RecordBatch
) -> tuple[list[Record], int]:
    """Read ``batch.record_count`` records and tell where the last one ends.

    The hot loop, hence long: all names are local, short varints are read without a call.
    A length that runs over the end makes indexing fail, or the returned end wrong.
    """
    records: list[Record] = []
    append, new = records.append, tuple.__new__
    topic, partition, epoch = batch.topic, batch.partition, batch.leader_epoch
    base_offset, base_timestamp = batch.base_offset, batch.base_timestamp
    kind = batch.timestamp_type
    headers: tuple[Header, ...]
    pos = alike = last_length = 0
    patience, count = LEAST_ALIKE, batch.record_count
    while len(records) < count:
        begin = pos
        length = buf[pos]
        if length < 0x80:
            pos += 1
        elif (more := buf[pos + 1]) < 0x80:
            length = length & 0x7F | more << 7
            pos += 2
        else:
            length, pos = _read_varint(buf, pos, 5)
        end = pos + (length >> 1)
        delta = buf[pos + 1]  # behind the record's attributes, which are unused
        if delta < 0x80:
            timestamp = base_timestamp + (delta >> 1 ^ -(delta & 1))
            pos += 2
        elif (more := buf[pos + 2]) < 0x80:
            delta = delta & 0x7F | more << 7
            timestamp = base_timestamp + (delta >> 1 ^ -(delta & 1))
            pos += 3
        else:
            timestamp, pos = _read_timestamp(buf, pos + 1, base_timestamp)
        delta = buf[pos]
        if delta < 0x80:
            pos += 1
        elif (more := buf[pos + 1]) < 0x80:
            delta = delta & 0x7F | more << 7
            pos += 2
        else:
            delta, pos = _read_varint(buf, pos, 5)
        if (length | delta) & 1:
            raise _Malformed("a record has a negative length or offset")
        size = buf[pos]
        pos += 1
        if size >= 0x80:
            size, pos = _read_varint(buf, pos - 1, 5)
        if not size & 1:
            start, pos = pos, pos + (size >> 1)
            key: bytes | None = buf[start:pos]
        else:
            key = None
            _check_null(size)
        size = buf[pos]
        if size < 0x80:
            pos += 1
        elif (more := buf[pos + 1]) < 0x80:
            size = size & 0x7F | more << 7
            pos += 2
        else:
            size, pos = _read_varint(buf, pos, 5)
        if not size & 1:
            start, pos = pos, pos + (size >> 1)
            value: bytes | None = buf[start:pos]
        else:
            value = None
            _check_null(size)
        headers = () if not buf[pos] and pos + 1 == end else _read_headers(buf, pos, end)
        pos = end
        offset = base_offset + (delta >> 1)
        fields = (topic, partition, offset, timestamp, kind, key, value, headers, epoch)
        append(new(Record, fields))
        if length != last_length:
            last_length, alike = length, 0
            continue
        alike += 1
        if alike >= patience:
            known, pos = len(records), read_alike(buf, begin, pos, batch, records)
            alike, patience = 0, LEAST_ALIKE if len(records) > known + patience else patience * 2
    return records, pos


def _read_varint(buf: bytes, pos: int, limit: int) -> tuple[int, int]:
    """Read a varint of at most ``limit`` bytes; its sign is still the lowest bit."""
    value = 0
    for index in range(limit):
        byte = buf[pos + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if limit == 5 and value >> 32:
                raise _Malformed("a length or offset of more than 32 bits")
            return value, pos + index + 1
    raise _Malformed(f"a varint of more than {limit} bytes")


def _read_timestamp(buf: bytes, pos: int, base_timestamp: int) -> tuple[int, int]:
    delta, pos = _read_varint(buf, pos, 10)
    delta &= 2 * INT64_LIMIT - 1  # as in Java: what ten bytes hold beyond 64 bits is ignored
    return wrap(base_timestamp + (delta >> 1 ^ -(delta & 1))), pos


def _read_bytes(buf: bytes, pos: int) -> tuple[bytes | None, int]:
    size, pos = _read_varint(buf, pos, 5)
    if size & 1:
        _check_null(size)
        return None, pos
    end = pos + (size >> 1)
    return buf[pos:end], end


def _check_null(size: int) -> None:
    """Refuse lengths below that of absent bytes, which is -1."""
    if size != 1:
        raise _Malformed("a key, value or header has a negative length")


def _read_headers(buf: bytes, pos: int, end: int) -> tuple[Header, ...]:
    """Read headers from ``pos`` to exactly ``end``. Bad UTF-8 is replaced, as in Java."""
    count, pos = _read_varint(buf, pos, 5)
    if count & 1 or count > end - pos:  # each takes two bytes or more
        raise _Malformed("a record has more headers than bytes, or less than none")
    headers = []
    for _ in range(count >> 1):
        key, pos = _read_bytes(buf, pos)
        if key is None:
            raise _Malformed("a header without a key")
        value, pos = _read_bytes(buf, pos)
        headers.append((key.decode("utf-8", "replace"), value))
    if pos != end:
        raise _Malformed("a record's length and content disagree")
    return tuple(headers)


def _with_timestamps(records: list[Record], timestamps: list[int]) -> list[Record]:
    new = tuple.__new__
    return [
        new(Record, (*record[:3], timestamp, *record[4:]))
        for record, timestamp in zip(records, timestamps, strict=True)
    ]
