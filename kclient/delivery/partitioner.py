"""Which partition a record goes to.

A record with a key goes where its key's hash says, so that equal keys keep their order. A
record without one may go anywhere: a partitioner answers None, and the caller asks the topic's
`StickyChoice`, which stays on one partition long enough to fill its batches.
"""

from __future__ import annotations

import difflib
import itertools
import random
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from zlib import crc32

from kclient.errors import ConfigError
from kclient.records import ArrowRows, interface

CACHED_KEYS = 16_384
"""How many keys of a topic are remembered with their partition; then it starts anew."""
LONGEST_CACHED_KEY = 256
"""Keys of more bytes are hashed each time, which bounds the cache's memory too."""


class Partitioner(Protocol):
    """Places the records of one topic."""

    def partition(self, key: bytes | None, count: int, available: Sequence[int]) -> int | None:
        """The partition of a record, below ``count``; None when any will do.

        ``available`` lists those that have a leader; it may be empty. Raises ConfigError
        when a function given by the user answers something that is not a partition.
        """
        ...


UserPartitioner = Callable[[str, "bytes | None", Sequence[int], Sequence[int]], int]
"""A function of topic, key, all partitions and those available, that answers one of them."""
PartitionerFactory = Callable[[str], Partitioner]
"""Makes the partitioner of a topic, whose name it takes."""


def murmur2_partition(key: bytes, count: int) -> int:
    """The partition that Java's client chooses for a key, of ``count``."""
    return (interface.active.murmur2(key) & 0x7FFFFFFF) % count


def crc32_partition(key: bytes, count: int) -> int:
    """The partition that librdkafka's ``consistent`` chooses for a key, of ``count``."""
    return crc32(key) % count


class KeyHash:
    """Equal keys to equal partitions, by ``place(key, count)``; remembers recent keys."""

    def __init__(self, place: Callable[[bytes, int], int], *, hash_empty: bool = True) -> None:
        """``hash_empty`` False treats an empty key like none."""
        self._place = place
        self._hash_empty = hash_empty
        # Count and keys travel together: a thread that saw the old count cannot spoil the new.
        self._cache: tuple[int, dict[bytes, int]] = (0, {})

    @property
    def is_java(self) -> bool:
        """Whether it is Java's default: murmur2, of empty keys too."""
        return self._place is murmur2_partition and self._hash_empty

    def partition(self, key: bytes | None, count: int, available: Sequence[int]) -> int | None:
        """See `Partitioner`. What is available does not matter: order is worth the wait."""
        if key is None or not (key or self._hash_empty):
            return None
        cached_count, cache = self._cache
        if cached_count == count and key in cache:
            return cache[key]
        chosen = self._place(key, count)
        if cached_count != count or len(cache) >= CACHED_KEYS:
            self._cache = (count, cache := {})
        if len(key) <= LONGEST_CACHED_KEY:
            cache[key] = chosen
        return chosen

    def spread(
        self, keys: Sequence[bytes | None], count: int, available: Sequence[int]
    ) -> list[int | None]:
        """The partitions of many keys: those that are remembered cost next to nothing."""
        cached_count, cache = self._cache
        if cached_count != count:
            cache = {}
        found: list[int | None] = list(map(cache.get, keys))  # type: ignore[arg-type]
        if None in found:
            for index, chosen in enumerate(found):
                if chosen is None:
                    found[index] = self.partition(keys[index], count, available)
        return found


class Consistent(KeyHash):
    """librdkafka's ``consistent``: no key counts as an empty one, so all such go together."""

    def __init__(self) -> None:
        super().__init__(crc32_partition)

    def partition(self, key: bytes | None, count: int, available: Sequence[int]) -> int | None:
        """See `Partitioner`."""
        return super().partition(key or b"", count, available)


class Sticky:
    """Keys are ignored (Java's ``partitioner.ignore.keys``)."""

    def partition(self, key: bytes | None, count: int, available: Sequence[int]) -> int | None:
        """Always None."""
        return None


class RandomEach:
    """Each record to any available partition, whatever its key."""

    def partition(self, key: bytes | None, count: int, available: Sequence[int]) -> int | None:
        """See `Partitioner`."""
        return random.choice(available or range(count))


class RoundRobin:
    """Each record to the next available partition, whatever its key."""

    def __init__(self) -> None:
        self._turns = itertools.count()  # whose next() is one step, so threads may share it

    def partition(self, key: bytes | None, count: int, available: Sequence[int]) -> int | None:
        """See `Partitioner`."""
        choice = available or range(count)
        return choice[next(self._turns) % len(choice)]


class UserChoice:
    """Asks a function of the user."""

    def __init__(self, topic: str, function: UserPartitioner) -> None:
        self._topic = topic
        self._function = function

    def partition(self, key: bytes | None, count: int, available: Sequence[int]) -> int | None:
        """See `Partitioner`. What the function raises passes through."""
        chosen = self._function(self._topic, key, range(count), available)
        if type(chosen) is int and 0 <= chosen < count:
            return chosen
        name = getattr(self._function, "__qualname__", repr(self._function))
        raise ConfigError(
            f"partitioner {name} answered {chosen!r} for topic {self._topic!r}; "
            f"it must answer a partition, 0 to {count - 1}",
            topic=self._topic,
        )


def spread(
    partitioner: Partitioner, keys: Sequence[bytes | None], count: int, available: Sequence[int]
) -> list[int | None]:
    """The partitions of many records by their keys, each as ``partition`` would say."""
    if isinstance(partitioner, KeyHash):
        return partitioner.spread(keys, count, available)
    return [partitioner.partition(key, count, available) for key in keys]


def spread_rows(
    partitioner: Partitioner, rows: ArrowRows, keys: Any, count: int, available: Sequence[int]
) -> Any:
    """The same for Arrow rows with these keys, as an Arrow array; None if none has a place.

    Java's partitioner takes the twin's short way, without a Python object for a key.
    """
    import pyarrow as pa

    if isinstance(partitioner, KeyHash) and partitioner.is_java:
        return None if keys is None else interface.active.murmur2_arrow(rows, count)
    if isinstance(partitioner, Sticky):
        return None
    listed = [rows.key(row) for row in range(len(rows))]
    return pa.array(spread(partitioner, listed, count, available), pa.int32())


class StickyChoice:
    """The partition that one topic's records without a key go to (KIP-480, KIP-794).

    It stays for a batch's worth of bytes, then moves on, to partitions with little queued
    rather than those with much. Not for several threads at once: the caller's lock guards it.
    """

    def __init__(self, batch_size: int, rng: random.Random | None = None) -> None:
        """``batch_size`` is in bytes."""
        self.current = -1
        """The partition to append to; -1 before the first `next`."""
        self._batch_size = batch_size
        self._appended = 0
        self._rng = rng or random.Random()

    def note(self, size: int, *, batch_ended: bool = True) -> bool:
        """Count ``size`` bytes appended to the current partition; True when `next` is due.

        With ``batch_ended`` False, the open batch still has room: leaving now would send it
        half empty, so it may grow until twice the batch size.
        """
        self._appended += size
        limit = self._batch_size if batch_ended else 2 * self._batch_size
        return self._appended >= limit

    def next(
        self, count: int, available: Sequence[int] = (), load: Mapping[int, int] | None = None
    ) -> int:
        """Move to one of ``available`` (else of all ``count``) and answer it.

        ``load`` says how much is queued for each, in any one unit; the less, the likelier.
        """
        choice = available or range(count)
        if load:
            queued = [load.get(partition, 0) for partition in choice]
            longest = max(queued) + 1
            weights = list(itertools.accumulate(longest - size for size in queued))
            index = bisect_right(weights, self._rng.randrange(weights[-1]))
            self.current = choice[index]
        else:
            self.current = self._rng.choice(choice)
        self._appended = 0
        return self.current


def _murmur2(topic: str) -> Partitioner:
    return KeyHash(murmur2_partition)


_FACTORIES: dict[str, PartitionerFactory] = {
    "murmur2": _murmur2,
    "murmur2_random": _murmur2,  # librdkafka's name for what Java does
    "consistent": lambda topic: Consistent(),
    "consistent_random": lambda topic: KeyHash(crc32_partition, hash_empty=False),
    "random": lambda topic: RandomEach(),
    "round_robin": lambda topic: RoundRobin(),
    "sticky": lambda topic: Sticky(),
}


def choose_partitioner(choice: str | UserPartitioner) -> PartitionerFactory:
    """What makes each topic's partitioner: one named here, or one that asks a function.

    Raises ConfigError for an unknown name.
    """
    if callable(choice):
        function = choice
        return lambda topic: UserChoice(topic, function)
    if isinstance(choice, str) and choice in _FACTORIES:
        return _FACTORIES[choice]
    close = difflib.get_close_matches(str(choice), _FACTORIES, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise ConfigError(
        f"partitioner {choice!r} is unknown; {hint}there are {', '.join(_FACTORIES)}, "
        "or a function of topic, key, partitions and available"
    )
