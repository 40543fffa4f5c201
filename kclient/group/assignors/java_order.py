"""The order in which Java's hash tables hand out their entries.

Where an assignor may as well pick one member as another, Java's pick depends on this order.
Doing the same keeps partitions in place when the lead of a group passes between clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import unpack

from kclient.types import TopicPartition

_MASK = 0xFFFFFFFF
_LEAST_TABLE = 16


def in_java_order(names: Iterable[str]) -> list[str]:
    """Strings as a HashMap hands them out that got them in this order."""
    entries = list(names)
    table = table_size(len(entries))
    return sorted(entries, key=lambda name: _bucket(_string_hash(name), table))


def first_in_java(partitions: Iterable[TopicPartition], table: int) -> TopicPartition:
    """What a HashSet with a table of that size hands out first."""
    return min(partitions, key=lambda tp: _bucket(_partition_hash(tp), table))


def table_size(entries: int) -> int:
    """The size of a table that has grown to hold so many; it never shrinks."""
    table = _LEAST_TABLE
    while entries > table * 3 // 4:
        table *= 2
    return table


def _bucket(hashed: int, table: int) -> int:
    return (hashed ^ hashed >> 16) & table - 1


def _string_hash(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for unit in unpack(f">{len(units) // 2}H", units):
        hashed = (31 * hashed + unit) & _MASK
    return hashed


def _partition_hash(tp: TopicPartition) -> int:
    return (31 * (31 + tp.partition) + _string_hash(tp.topic)) & _MASK
