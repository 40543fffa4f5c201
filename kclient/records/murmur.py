"""The hash by which Java's client spreads keys over partitions: murmur2 of its ``Utils``."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import Any

from kclient.records.arrow_rows import ArrowRows

_SEED, _M, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


@lru_cache(maxsize=256)
def _words(count: int) -> Struct:
    return Struct(f"<{count}I")


def murmur2(key: bytes) -> int:
    """Hash ``key`` to what Java's ``Utils.murmur2`` gives: a signed number of 32 bits."""
    size = len(key)
    value = _SEED ^ size
    words = size >> 2
    for word in _words(words).unpack_from(key):
        # Bits above the 32nd never flow down in a product or xor: one mask a word is enough.
        word = word * _M & _MASK
        value = (value * _M ^ (word ^ word >> 24) * _M) & _MASK
    if size & 3:
        value = (value ^ int.from_bytes(key[words << 2 :], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    value ^= value >> 15
    return value - (value >> 31 << 32)


def murmur2_partitions(keys: Iterable[bytes], count: int) -> list[int]:
    """Give each key its partition out of ``count``, as Java's default partitioner does.

    Raises ValueError for a ``count`` below 1.
    """
    if count < 1:
        raise ValueError(f"a topic cannot have {count} partitions")
    return [(murmur2(key) & 0x7FFFFFFF) % count for key in keys]


def murmur2_arrow(rows: ArrowRows, count: int) -> Any:
    """Give the keys of Arrow rows their partitions, as a column of int32; null has null.

    Raises ValueError for a ``count`` below 1.
    """
    import pyarrow as pa

    keys = [rows.key(row) for row in range(len(rows))]
    partitions = iter(murmur2_partitions([key for key in keys if key is not None], count))
    return pa.array([None if key is None else next(partitions) for key in keys], pa.int32())
