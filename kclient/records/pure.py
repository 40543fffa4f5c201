"""Record batch v2 in pure Python: the readable reference, and as fast as Python goes.

A record costs a microsecond or less each way, so both loops know the common shapes: short
varints are read in place and written from a table, and a record becomes a tuple at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import error as StructError  # noqa: N812 - a class by any other name
from typing import Any

from crc32c import crc32c as crc32c

from kclient.compression import Compression, compress
from kclient.errors import ProtocolError, SerializationError
from kclient.records.batch import (
    CRC_END,
    HEADER,
    LENGTH_END,
    LOG_APPEND_TIME,
    OFFSET_LIMIT,
    TRANSACTIONAL,
    RecordBatch,
    corrupt_batch,
)
from kclient.types import Header, Record

NAME = "python"

_SMALLEST_RECORD = 7
_INT32_MAX = (1 << 31) - 1
_INT64_LIMIT = 1 << 63


class _Malformed(Exception):
    """What is wrong with a record; the caller knows where."""


# --- reading -----------------------------------------------------------------------------


def read_records(section: bytes, batch: RecordBatch) -> list[Record]:
    """Read the records of a batch v2 from its decompressed ``section``.

    Raises CorruptRecord unless the section holds exactly the records that the header counts.
    """
    if batch.record_count * _SMALLEST_RECORD > len(section):
        raise corrupt_batch(
            batch, f"{batch.record_count} records cannot be in {len(section)} bytes"
        )
    try:
        records, end = _read_section(section, batch)
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
    if abs(batch.base_timestamp) > _INT64_LIMIT // 2:
        return _with_timestamps(records, [_wrap(record.timestamp) for record in records])
    return records


def read_arrow(batches: Iterable[tuple[RecordBatch, bytes]]) -> Any:
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
    pos = 0
    for _ in range(batch.record_count):
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
    return _wrap(base_timestamp + (delta >> 1 ^ -(delta & 1))), pos


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
        raise _Malformed(f"a record cannot have {count >> 1} headers")
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


def _wrap(number: int) -> int:
    """Wrap around as Java's 64-bit sums do: deltas of extreme timestamps rely on it."""
    return (number + _INT64_LIMIT) % (2 * _INT64_LIMIT) - _INT64_LIMIT


def _with_timestamps(records: list[Record], timestamps: list[int]) -> list[Record]:
    new = tuple.__new__
    return [
        new(Record, (*record[:3], timestamp, *record[4:]))
        for record, timestamp in zip(records, timestamps, strict=True)
    ]


# --- writing -----------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    """Encode a signed number of up to 64 bits as a zigzag varint."""
    raw = number << 1 ^ number >> 63
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


# Every number from 0 up whose varint has at most two bytes.
_SHORT = tuple(_varint(number) for number in range(1 << 13))
_SHORT_LIMIT = len(_SHORT)


class PureBatchWriter:
    """A batch v2 that grows record by record. See ``interface.BatchWriter``."""

    __slots__ = ("_base_timestamp", "_buffer", "_compression", "_max_timestamp", "count")

    def __init__(self, compression: Compression) -> None:
        self.count = 0
        self._compression = compression
        self._buffer = bytearray(HEADER.size)
        self._base_timestamp = self._max_timestamp = -1

    @property
    def size(self) -> int:
        """Bytes so far, header included, before compression."""
        return len(self._buffer)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        timestamp: int = -1,
    ) -> int:
        """Add a record and return ``size``.

        Raises SerializationError for what is not bytes, or a header key that is not text.
        """
        count, short = self.count, _SHORT
        if not count:
            self._base_timestamp = self._max_timestamp = timestamp
        if key is None:
            key_size, key = b"\x01", b""
        elif type(key) is bytes and (size := len(key)) < _SHORT_LIMIT:
            key_size = short[size]
        else:
            key_size, key = _sized(key)
        if value is None:
            value_size, value = b"\x01", b""
        elif type(value) is bytes and (size := len(value)) < _SHORT_LIMIT:
            value_size = short[size]
        else:
            value_size, value = _sized(value)
        delta = timestamp - self._base_timestamp
        elapsed = short[delta] if 0 <= delta < _SHORT_LIMIT else _far(delta, timestamp)
        index = short[count] if count < _SHORT_LIMIT else _varint(count)
        tail = _pack_headers(headers) if headers else b"\x00"
        body = b"".join((b"\x00", elapsed, index, key_size, key, value_size, value, tail))
        buffer = self._buffer
        buffer += short[size] if (size := len(body)) < _SHORT_LIMIT else _varint(size)
        buffer += body
        self.count = count + 1
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        return len(buffer)

    def seal(
        self,
        *,
        base_offset: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytes:
        """Return the finished batch: header, checksum, compressed if the writer is told so.

        May be called again, say with a new producer epoch. Raises ProtocolError if a number
        does not fit the header.
        """
        if not self.count:
            return b""
        if not 0 <= base_offset < OFFSET_LIMIT:
            raise ProtocolError(f"a batch cannot begin at offset {base_offset}")
        codec, level = self._compression
        batch = self._buffer
        if codec:
            batch = bytearray(HEADER.size) + compress(batch[HEADER.size :], codec, level=level)
        if len(batch) - LENGTH_END > _INT32_MAX:
            raise ProtocolError(f"a batch of {len(batch)} bytes: the format allows {_INT32_MAX}")
        fields = (base_offset, len(batch) - LENGTH_END, -1, 2, 0)
        attributes = codec | TRANSACTIONAL * transactional
        times = (self._base_timestamp, self._max_timestamp)
        producer = (producer_id, producer_epoch, base_sequence)
        try:
            HEADER.pack_into(
                batch, 0, *fields, attributes, self.count - 1, *times, *producer, self.count
            )
        except StructError as error:
            raise ProtocolError(f"a number does not fit a batch's header: {error}") from None
        checksum = crc32c(memoryview(batch)[CRC_END:])
        batch[CRC_END - 4 : CRC_END] = checksum.to_bytes(4, "big")
        return bytes(batch)


def open_batch(compression: Compression) -> PureBatchWriter:
    """Start a batch v2."""
    return PureBatchWriter(compression)


def _far(delta: int, timestamp: int) -> bytes:
    """Encode the distance of a timestamp that is before the first one, or long after it."""
    if not -_INT64_LIMIT <= timestamp < _INT64_LIMIT:
        raise ProtocolError(f"the timestamp {timestamp} does not fit 64 bits")
    return _varint(_wrap(delta))


def _sized(data: object) -> tuple[bytes, bytes]:
    """Give the varint of a length, and the bytes, of anything that holds bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise SerializationError(f"keys and values are bytes or None, not {type(data).__name__}")
    copy = bytes(data)
    return _varint(len(copy)), copy


def _pack_headers(headers: Sequence[Header]) -> bytes:
    parts = [_varint(len(headers))]
    for header in headers:
        try:
            key, value = header
            parts += _sized(key.encode())
        except (AttributeError, TypeError, ValueError):  # ValueError: text that is not Unicode
            raise SerializationError(
                f"a header is a pair of text and bytes or None, not {header!r}"
            ) from None
        parts += (b"\x01",) if value is None else _sized(value)
    return b"".join(parts)
