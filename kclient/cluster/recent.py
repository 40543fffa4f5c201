"""Topics that this client has just made or deleted.

The controller has said yes, but brokers hear of it a moment later: until then a client would
not find what it has made itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable

from kclient.cluster.metadata import TOPIC_GRACE


class RecentTopics:
    """What the next listing should show, for the seconds that brokers may take to hear of it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the one below
        self._changed: dict[str, tuple[float, bool]] = {}

    def note(self, names: Iterable[str], *, exist: bool) -> None:
        """Remember that topics were made, or deleted."""
        now = time.monotonic()
        with self._lock:
            self._changed = {**self._live(), **dict.fromkeys(names, (now, exist))}

    def clear(self) -> None:
        """Expect nothing of the next listing."""
        with self._lock:
            self._changed = {}

    def made(self) -> set[str]:
        """The topics that were just made."""
        return {name for name, (_, exists) in self._live().items() if exists}

    def shows(self, listed: Collection[str]) -> bool:
        """Whether a broker that lists these topics has heard of all that was changed."""
        return all((name in listed) == exists for name, (_, exists) in self._live().items())

    def _live(self) -> dict[str, tuple[float, bool]]:
        oldest = time.monotonic() - TOPIC_GRACE
        return {name: entry for name, entry in self._changed.items() if entry[0] > oldest}
