"""Message sets of formats 0 and 1: what brokers before 0.11 store, and old topics still hold.

A set is a row of messages, each with a CRC-32 of its own. A compressed set travels as the
value of one wrapper message that has the offset of the last message inside (KIP-31, KIP-32).
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class by any other name

from kclient.compression import Codec, Compression, compress
from kclient.errors import ProtocolError, UnsupportedVersion
from kclient.records.arrow_rows import ArrowRows
from kclient.records.batch import (
    CODEC_MASK,
    LENGTH_END,
    LOG_APPEND_TIME,
    OFFSET_LIMIT,
    RecordBatch,
    corrupt,
    corrupt_batch,
    decompressed,
    indexes,
    not_a_pair,
    not_bytes,
)
from kclient.types import Header, Record

_HEAD = Struct(">qiIbbq")  # offset, length, CRC, magic, attributes; in format 1 a timestamp
_FIELDS = (Struct(">qiIbbi"), Struct(">qiIbbqi"))  # by format: up to the key's length
_SMALLEST = (26, 34)  # by format: a message without key and value, in bytes
_CRC_END = 16
_PREFIX = Struct(">qiI")
_INT32 = Struct(">i")

_Message = tuple[int, int, "bytes | None", "bytes | None"]
"""Offset, timestamp, key, value."""


# --- reading -----------------------------------------------------------------------------


def scan_messages(
    view: memoryview, pos: int, topic: str, partition: int, check_crc: bool
) -> RecordBatch | None:
    """Take one compressed message, or a run of like plain ones, from ``view`` at ``pos``.

    None if the first message is cut short, as the last one of a fetch may be. Raises
    CorruptRecord for an impossible length or a wrong checksum.
    """
    begin, size = pos, len(view)
    count, kind = 0, (0, 0)
    first, last, latest = -1, -1, -1
    while size - pos >= _SMALLEST[0]:
        offset, length, checksum, magic, attributes, timestamp = _HEAD.unpack_from(view, pos)
        if count and (kind != (magic, attributes) or attributes & CODEC_MASK):
            break
        end = pos + LENGTH_END + length
        damage = None
        if end - pos < _SMALLEST[magic]:
            damage = f"a message cannot have {length} bytes"
        elif end > size:
            break
        elif check_crc and zlib.crc32(view[pos + _CRC_END : end]) != checksum:
            damage = "the CRC of a message is wrong"
        elif not 0 <= offset < OFFSET_LIMIT:
            damage = "a message cannot have this offset"
        if damage and count:
            break  # what came before is sound: the next call begins here, and raises
        if damage:
            raise corrupt(topic, partition, offset, damage)
        if not count:
            kind, first = (magic, attributes), offset
        count, last, pos = count + 1, offset, end
        latest = max(latest, timestamp) if magic else -1
    if not count:
        return None
    magic, attributes = kind
    if attributes & CODEC_MASK:
        first = count = -1
    attributes &= CODEC_MASK | LOG_APPEND_TIME
    header = (magic, first, last, -1, attributes, latest, latest, -1, -1, -1, count)
    return RecordBatch(topic, partition, *header, view[begin:pos])


def read_messages(batch: RecordBatch, max_output: int) -> list[Record]:
    """Read the messages that ``scan_messages`` found; compressed ones are unpacked.

    Raises CorruptRecord, or MissingCodec if the codec's package is not installed.
    """
    messages = _parse(bytes(batch.section), batch)
    if batch.codec:
        messages = _unwrap(messages[0], batch, max_output)
    topic, partition, kind = batch.topic, batch.partition, batch.timestamp_type
    new = tuple.__new__
    return [
        new(Record, (topic, partition, offset, timestamp, kind, key, value, (), -1))
        for offset, timestamp, key, value in messages
    ]


def _unwrap(wrapper: _Message, batch: RecordBatch, max_output: int) -> list[_Message]:
    offset, timestamp, _, payload = wrapper
    if payload is None:
        raise corrupt_batch(batch, "a compressed message without a value")
    plain = bytes(decompressed(batch, memoryview(payload), max_output))
    messages = _parse(plain, batch, inner=True)
    if not messages:
        raise corrupt_batch(batch, "a compressed message without messages")
    if batch.attributes & LOG_APPEND_TIME:
        messages = [(own, timestamp, key, value) for own, _, key, value in messages]
    if batch.magic == 0 or offset == 0:  # some producers leave the wrapper's offset at 0
        return messages
    shift = offset - messages[-1][0]  # KIP-31: inside, offsets count from 0
    if shift < 0 or max(message[0] for message in messages) > messages[-1][0]:
        raise corrupt_batch(batch, "a wrapper's offset is lower than one inside")
    return [(own + shift, time, key, value) for own, time, key, value in messages]


def _parse(buf: bytes, batch: RecordBatch, inner: bool = False) -> list[_Message]:
    """Read messages of one format, end to end."""
    messages: list[_Message] = []
    magic, pos, size, timestamp = batch.magic, 0, len(buf), -1
    unpack, head = _FIELDS[magic].unpack_from, _FIELDS[magic].size
    while pos < size:
        if size - pos < _SMALLEST[magic]:
            raise corrupt_batch(batch, "a message is cut short")
        offset, length, _, found, attributes, *rest = unpack(buf, pos)
        if found != magic or (inner and attributes & CODEC_MASK):
            raise corrupt_batch(batch, "a compressed message holds another format or wrapper")
        if not 0 <= offset < OFFSET_LIMIT:
            raise corrupt_batch(batch, f"a message cannot have the offset {offset}")
        end = pos + LENGTH_END + length
        if magic:
            timestamp = rest[0]
        start = pos + head
        middle = start + max(rest[-1], 0)
        if rest[-1] < -1 or length < 0 or end > size or middle + 4 > end:
            raise corrupt_batch(batch, "a message's lengths disagree")
        key = buf[start:middle] if rest[-1] >= 0 else None
        (value_size,) = _INT32.unpack_from(buf, middle)
        if value_size < -1 or middle + 4 + max(value_size, 0) != end:
            raise corrupt_batch(batch, "a message's lengths disagree")
        value = buf[middle + 4 : end] if value_size >= 0 else None
        messages.append((offset, timestamp, key, value))
        pos = end
    return messages


# --- writing -----------------------------------------------------------------------------


class MessageSetWriter:
    """A message set of format 0 or 1 that grows. See ``interface.BatchWriter``."""

    __slots__ = ("_buffer", "_compression", "_latest", "_magic", "count")

    def __init__(self, compression: Compression, magic: int) -> None:
        if compression.codec is Codec.ZSTD:
            raise UnsupportedVersion(f"zstd needs message format 2, not {magic} (KIP-110)")
        self.count = 0
        self._compression = compression
        self._magic = magic
        self._buffer = bytearray()
        self._latest = -1

    @property
    def size(self) -> int:
        """Bytes so far, before compression."""
        return len(self._buffer)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header] = (),
        timestamp: int = -1,
    ) -> int:
        """Add a message and return ``size``. Format 0 forgets the timestamp.

        Raises UnsupportedVersion for headers, SerializationError for what is not bytes.
        """
        self._refuse(headers)
        self._add(key, value, timestamp, sys.maxsize)
        return len(self._buffer)

    def append_values(
        self, values: list[bytes | None], start: int, timestamp: int, limit: int
    ) -> int:
        """Add messages without keys; see ``append_pairs``."""
        pairs: list[tuple[bytes | None, bytes | None]] = [(None, value) for value in values]
        return self.append_pairs(pairs, start, timestamp, limit)

    def append_pairs(
        self,
        pairs: list[tuple[bytes | None, bytes | None]],
        start: int,
        timestamp: int,
        limit: int,
    ) -> int:
        """Add keys and values from index ``start`` while ``size`` stays within ``limit``.

        Returns the index of the first one not taken; an empty set takes one in any case.
        Raises what ``append`` raises; the messages before the wrong one are in the set.
        """
        for index in indexes(pairs, start):
            try:
                key, value = pairs[index]
            except (TypeError, ValueError):
                raise not_a_pair(pairs[index]) from None
            if not self._add(key, value, timestamp, limit):
                return index
        return max(start, len(pairs))

    def append_arrow(self, rows: ArrowRows, start: int, timestamp: int, limit: int) -> int:
        """Add Arrow rows from index ``start`` while ``size`` stays within ``limit``.

        As ``append_pairs``; ``timestamp`` is for rows that have none of their own.
        """
        for row in indexes(rows, start):
            key, value, headers, time = rows.record(row, timestamp)
            self._refuse(headers)
            if not self._add(key, value, time, limit):
                return row
        return max(start, len(rows))

    def _refuse(self, headers: Sequence[Header]) -> None:
        if headers:
            raise UnsupportedVersion(
                f"headers need Kafka 0.11 or newer (message format 2, not {self._magic}: KIP-82)"
            )

    def _add(self, key: bytes | None, value: bytes | None, timestamp: int, limit: int) -> bool:
        """Add a message unless the set has some already and would exceed ``limit``."""
        message = _pack(self._magic, self.count, 0, timestamp, key, value)
        if self.count and len(self._buffer) + len(message) > limit:
            return False
        self._buffer += message
        self._latest = max(self._latest, timestamp)
        self.count += 1
        return True

    def seal(
        self,
        *,
        base_offset: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytes:
        """Return the finished set; one wrapper message if it is compressed.

        Raises UnsupportedVersion for a producer's state, which only format 2 can hold,
        ProtocolError for an offset that does not fit.
        """
        if transactional or (producer_id, producer_epoch, base_sequence) != (-1, -1, -1):
            raise UnsupportedVersion(f"producer ids need message format 2, not {self._magic}")
        if not 0 <= base_offset < OFFSET_LIMIT:
            raise ProtocolError(f"a message set cannot begin at offset {base_offset}")
        codec, level = self._compression
        magic = self._magic
        messages = self._buffer
        if base_offset and not (codec and magic):
            messages = _shifted(messages, base_offset)
        if not codec or not self.count:
            return bytes(messages)
        payload = compress(messages, codec, level=level, magic=magic)
        return _pack(magic, base_offset + self.count - 1, codec, self._latest, None, payload)


def _shifted(messages: bytearray, base_offset: int) -> bytearray:
    """Copy messages numbered from 0, numbered from ``base_offset``."""
    shifted = bytearray(messages)
    pos = 0
    while pos < len(shifted):
        offset, length, *_ = _HEAD.unpack_from(shifted, pos)
        shifted[pos : pos + 8] = (offset + base_offset).to_bytes(8, "big", signed=True)
        pos += LENGTH_END + length
    return shifted


def _pack(
    magic: int,
    offset: int,
    attributes: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
) -> bytes:
    try:
        time = timestamp.to_bytes(8, "big", signed=True) if magic else b""
        body = b"".join((bytes((magic, attributes)), time, _field(key), _field(value)))
        return _PREFIX.pack(offset, 4 + len(body), zlib.crc32(body)) + body
    except (StructError, OverflowError) as error:
        raise ProtocolError(f"a number does not fit a message: {error}") from None


def _field(data: object) -> bytes:
    if data is None:
        return b"\xff\xff\xff\xff"
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise not_bytes(data)
    return _INT32.pack(memoryview(data).nbytes) + data
