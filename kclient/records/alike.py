"""Records that look like the one before them, read many at a time; for the pure twin.

Producers write runs of records with the same sizes and the same timestamp, whose offsets
count up. One format of ``struct`` then fits all of a run, which spares most of what reading a
record costs in Python. What does not fit is left to the loop that reads anything.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from kclient.records.batch import RecordBatch
from kclient.types import Record

LEAST_ALIKE = 3
"""Records of the same length in a row that make it worth a try."""
_ONE_BYTE, _TWO_BYTES = 64, 8192  # offsets from here on take another byte
_MOST = 512  # records at once, for what is prepared for each may be of no use


def _varint(number: int) -> bytes:
    """A number from 0 on, as records have it: its sign in the lowest bit."""
    rest, made = number << 1, bytearray()
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    made.append(rest)
    return bytes(made)


@lru_cache(maxsize=1)
def _offset_deltas() -> list[bytes]:
    return [_varint(delta) for delta in range(_TWO_BYTES)]


class _Shape(NamedTuple):
    """What a run has in common: how to take a record apart, and the parts that never differ."""

    format: Struct
    key_size: bytes
    value_size: bytes
    tail: bytes
    """No headers, then length, attributes and timestamp of the record that follows."""


@lru_cache(maxsize=256)
def _shape(head: bytes, offset_size: int, key: int, value: int) -> _Shape:
    key_size, value_size, tail = _varint(key), _varint(value), b"\0" + head
    form = f"{offset_size}s{len(key_size)}s{key}s{len(value_size)}s{value}s{len(tail)}s"
    return _Shape(Struct(form), key_size, value_size, tail)


def read_alike(buf: bytes, start: int, pos: int, batch: RecordBatch, records: list[Record]) -> int:
    """Read on from ``pos`` while records are like the last of ``records``, at ``start``.

    Appends them; returns the position behind the last one. Never reads the batch's last
    record, for nothing follows that could be compared.
    """
    last = records[-1]
    if last.key is None or last.value is None or last.headers:
        return pos
    delta = last.offset - batch.base_offset + 1
    limit = _ONE_BYTE if delta < _ONE_BYTE else _TWO_BYTES
    count = min(limit - delta, batch.record_count - len(records) - 1, _MOST)
    head = buf[start : _head_end(buf, start)]
    if count <= 0 or not buf.startswith(head, pos):
        return pos
    size = 1 if delta < _ONE_BYTE else 2
    form, key_size, value_size, tail = _shape(head, size, len(last.key), len(last.value))
    first = pos + len(head)
    count = min(count, (len(buf) - first) // form.size)
    rows = form.iter_unpack(memoryview(buf)[first : first + count * form.size])
    deltas = _offset_deltas()[delta : delta + count]
    append, new, before = records.append, tuple.__new__, len(records)
    topic, partition, offset, timestamp, kind, _, _, none, epoch = last
    for expected, (found, size_1, key, size_2, value, end) in zip(deltas, rows, strict=False):
        if found != expected or end != tail or size_1 != key_size or size_2 != value_size:
            break
        offset += 1
        append(new(Record, (topic, partition, offset, timestamp, kind, key, value, none, epoch)))
    return pos + (len(records) - before) * form.size


def _head_end(buf: bytes, pos: int) -> int:
    """Where length, attributes and timestamp of the record at ``pos`` end."""
    while buf[pos] > 0x7F:
        pos += 1
    pos += 2
    while buf[pos] > 0x7F:
        pos += 1
    return pos + 1
