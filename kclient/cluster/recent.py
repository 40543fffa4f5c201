"""Topics that this client has just made or deleted.

The controller has said yes, but brokers hear of it later, and a busy one takes seconds: until
then a client would not find what it has made itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable
from typing import NamedTuple

from kclient.cluster.metadata import TOPIC_GRACE

OWN_GRACE = 15.0
"""For how many seconds a broker may not have heard of what this client has changed."""


class _Change(NamedTuple):
    """``at`` is of time.monotonic(). What ``is_seen`` is known to one broker at least."""

    at: float
    exists: bool
    is_seen: bool


class RecentTopics:
    """What the next listing should show, until brokers must have heard of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the one below
        self._changes: dict[str, _Change] = {}

    def note(self, names: Iterable[str], *, exist: bool) -> None:
        """Remember that topics were made, or deleted."""
        change = _Change(time.monotonic(), exist, is_seen=False)
        with self._lock:
            self._changes = {**self._live(), **dict.fromkeys(names, change)}

    def clear(self) -> None:
        """Expect nothing of the next listing."""
        with self._lock:
            self._changes = {}

    def made(self) -> set[str]:
        """The topics that were just made."""
        return {name for name, change in self._live().items() if change.exists}

    def see(self, names: Iterable[str]) -> None:
        """Note that a broker knows these topics; others hear of them soon."""
        with self._lock:
            for name in names:
                change = self._changes.get(name)
                if change is not None and change.exists:
                    self._changes[name] = change._replace(is_seen=True)

    def shows(self, listed: Collection[str]) -> bool:
        """Whether a broker that lists these topics has heard of all that was changed."""
        self.see(listed)
        return all((name in listed) == change.exists for name, change in self._live().items())

    def _live(self) -> dict[str, _Change]:
        now = time.monotonic()
        return {
            name: change
            for name, change in self._changes.items()
            if now - change.at < (TOPIC_GRACE if change.is_seen else OWN_GRACE)
        }
