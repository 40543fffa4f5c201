"""The script: which faults meet which requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Condition

from kclient.errors import KafkaTimeout
from kclient.testing.fake.faults import Fault
from kclient.testing.fake.journal import SeenRequest


class ScriptedFault:
    """Faults that wait for their requests; made by ``FakeCluster.on``."""

    def __init__(
        self,
        changed: Condition,
        api: str,
        faults: Sequence[Fault],
        first: int,
        last: int | None,
        matches: Callable[[SeenRequest], bool],
    ) -> None:
        self._changed = changed
        self._api = api
        self._faults = tuple(faults)
        self._first, self._last = first, last
        self._matches = matches
        self._met = 0
        self.hits: list[SeenRequest] = []

    def __repr__(self) -> str:
        return f"<on {self._api}: {list(self._faults)}, hit {len(self.hits)} times>"

    def take(self, seen: SeenRequest) -> Sequence[Fault]:
        """The faults for a request that has just arrived."""
        if seen.api != self._api or not self._matches(seen):
            return ()
        self._met += 1
        if self._met < self._first or (self._last is not None and self._met > self._last):
            return ()
        self.hits.append(seen)
        self._changed.notify_all()
        return self._faults

    def await_hit(self, timeout: float = 10.0, *, times: int = 1) -> SeenRequest:
        """Wait until it has happened ``times`` times; the request it happened to.

        ``timeout`` is in seconds. Raises KafkaTimeout.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.hits) >= times, timeout):
                raise KafkaTimeout(f"{self!r}, not {times} times, within {timeout} s")
            return self.hits[times - 1]

    def cancel(self) -> None:
        """Let further requests pass."""
        with self._changed:
            self._last = 0


class Script:
    """All scripted faults of a cluster, in the order they were added."""

    def __init__(self, changed: Condition) -> None:
        self._changed = changed
        self._entries: list[ScriptedFault] = []

    def add(self, entry: ScriptedFault) -> None:
        """Let ``entry`` meet the requests from now on."""
        with self._changed:
            self._entries.append(entry)

    def take(self, seen: SeenRequest) -> list[Fault]:
        """All faults for a request that has just arrived."""
        with self._changed:
            return [fault for entry in self._entries for fault in entry.take(seen)]
