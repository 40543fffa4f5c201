"""The writer of batch v2 in pure Python: short varints come from a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import TypeVar

from kclient.compression import Compression
from kclient.errors import SerializationError
from kclient.records.arrow_rows import ArrowRows
from kclient.records.batch import (
    HEADER_SIZE,
    INT32_MAX,
    INT64_LIMIT,
    bad_timestamp,
    indexes,
    not_a_pair,
    not_bytes,
    record_too_large,
    wrap,
)
from kclient.records.seal import seal_batch
from kclient.types import Header

_NULL = (b"\x01", b"")

_Item = TypeVar("_Item")


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

    __slots__ = ("_base_timestamp", "_buffer", "_compression", "_max_timestamp", "_near", "count")

    def __init__(self, compression: Compression) -> None:
        self.count = 0
        self._compression = compression
        self._buffer = bytearray()
        self._base_timestamp = self._max_timestamp = -1
        self._near = _SHORT_LIMIT  # distances below this fit, and are in the table

    @property
    def size(self) -> int:
        """Bytes so far, header included, before compression."""
        return HEADER_SIZE + len(self._buffer)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        timestamp: int = -1,
    ) -> int:
        """Add a record and return ``size``.

        Raises SerializationError for what is not bytes, or a header key that is not text,
        ProtocolError for a timestamp of more than 64 bits.
        """
        count, short = self.count, _SHORT
        if key is None:
            key_size, key = _NULL
        elif type(key) is bytes and (size := len(key)) < _SHORT_LIMIT:
            key_size = short[size]
        else:
            key_size, key = _sized(key)
        if value is None:
            value_size, value = _NULL
        elif type(value) is bytes and (size := len(value)) < _SHORT_LIMIT:
            value_size = short[size]
        else:
            value_size, value = _sized(value)
        delta = timestamp - self._base_timestamp if count else self._start(timestamp)
        elapsed = short[delta] if 0 <= delta < self._near else _far(delta, timestamp)
        index = short[count] if count < _SHORT_LIMIT else _varint(count)
        tail = _pack_headers(headers) if headers else b"\x00"
        body = b"".join((b"\x00", elapsed, index, key_size, key, value_size, value, tail))
        buffer = self._buffer
        buffer += short[size] if (size := len(body)) < _SHORT_LIMIT else _length(size)
        buffer += body
        self.count = count + 1
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
        return HEADER_SIZE + len(buffer)

    def append_values(
        self, values: list[bytes | None], start: int, timestamp: int, limit: int
    ) -> int:
        """Add records without keys; see ``append_pairs``."""
        return self._append_run(zip(repeat(None), _rest(values, start)), start, timestamp, limit)

    def append_pairs(
        self,
        pairs: list[tuple[bytes | None, bytes | None]],
        start: int,
        timestamp: int,
        limit: int,
    ) -> int:
        """Add keys and values from index ``start`` while ``size`` stays within ``limit``.

        Returns the index of the first one not taken; an empty batch takes one in any case.
        Raises what ``append`` raises; the records before the wrong one are in the batch.
        """
        return self._append_run(_rest(pairs, start), start, timestamp, limit)

    def append_arrow(self, rows: ArrowRows, start: int, timestamp: int, limit: int) -> int:
        """Add Arrow rows from index ``start`` while ``size`` stays within ``limit``.

        As ``append_pairs``; ``timestamp`` is for rows that have none of their own.
        """
        for row in indexes(rows, start):
            before, latest = len(self._buffer), self._max_timestamp
            key, value, headers, time = rows.record(row, timestamp)
            if self.append(key, value, headers, time) > limit and self.count > 1:
                del self._buffer[before:]
                self.count -= 1
                self._max_timestamp = latest
                return row
        return max(start, len(rows))

    def _append_run(
        self,
        pairs: Iterable[tuple[bytes | None, bytes | None]],
        index: int,
        timestamp: int,
        limit: int,
    ) -> int:
        """Do what ``append`` does, without a call for each record."""
        buffer, count, short = self._buffer, self.count, _SHORT
        delta = timestamp - self._base_timestamp if count else self._start(timestamp)
        head = b"\x00" + (short[delta] if 0 <= delta < self._near else _far(delta, timestamp))
        size = HEADER_SIZE + len(buffer)
        try:
            for pair in pairs:
                try:
                    key, value = pair
                except (TypeError, ValueError):
                    raise not_a_pair(pair) from None
                if key is None:
                    key_size, key = _NULL
                elif type(key) is bytes and (n := len(key)) < _SHORT_LIMIT:
                    key_size = short[n]
                else:
                    key_size, key = _sized(key)
                if value is None:
                    value_size, value = _NULL
                elif type(value) is bytes and (n := len(value)) < _SHORT_LIMIT:
                    value_size = short[n]
                else:
                    value_size, value = _sized(value)
                position = short[count] if count < _SHORT_LIMIT else _varint(count)
                body = b"".join((head, position, key_size, key, value_size, value, b"\x00"))
                length = short[n] if (n := len(body)) < _SHORT_LIMIT else _length(n)
                size += len(length) + n
                if size > limit and count:
                    break
                buffer += length
                buffer += body
                count += 1
                index += 1
        finally:
            if count > self.count:
                self.count = count
                self._max_timestamp = max(self._max_timestamp, timestamp)
        return index

    def _start(self, timestamp: int) -> int:
        """Let the timestamps of a batch begin; the first one's distance is 0."""
        if not -INT64_LIMIT <= timestamp < INT64_LIMIT:
            raise bad_timestamp(timestamp)
        self._base_timestamp = self._max_timestamp = timestamp
        self._near = min(_SHORT_LIMIT, INT64_LIMIT - timestamp)
        return 0

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
        does not fit the header, MissingCodec.
        """
        if not self.count:
            return b""
        with memoryview(self._buffer) as section:
            return seal_batch(
                section,
                self.count,
                (self._base_timestamp, self._max_timestamp),
                self._compression,
                base_offset=base_offset,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                transactional=transactional,
            )


def _rest(items: list[_Item], start: int) -> Iterable[_Item]:
    """Walk over ``items`` from ``start``, without a copy."""
    return map(items.__getitem__, indexes(items, start))


def _length(size: int) -> bytes:
    """Encode the length of a long record."""
    if size > INT32_MAX:
        raise record_too_large(size)
    return _varint(size)


def _far(delta: int, timestamp: int) -> bytes:
    """Encode the distance of a timestamp that is before the first one, or long after it."""
    if not -INT64_LIMIT <= timestamp < INT64_LIMIT:
        raise bad_timestamp(timestamp)
    return _varint(wrap(delta))


def _sized(data: object) -> tuple[bytes, bytes]:
    """Give the varint of a length, and the bytes, of anything that holds bytes."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise not_bytes(data)
    copy = bytes(data)
    return _varint(len(copy)), copy


def _pack_headers(given: Iterable[Header]) -> bytes:
    headers = tuple(given)
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
