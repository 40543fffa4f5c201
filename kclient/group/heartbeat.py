"""The thread that tells the coordinator that this member lives, whatever the user is doing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from kclient.group.actions import Beat, FindCoordinator, Identity, Leave, Tick, Wait

_log = logging.getLogger(__name__)
_LONGEST_SLEEP = 1.0


class Beating(Protocol):
    """The part of a membership that needs no poll."""

    def tick(self, now: float) -> Tick:
        """The one thing to do now."""

    def answered(self, identity: Identity, code: int, now: float) -> None:
        """A heartbeat was answered."""


class Heartbeat:
    """Runs ``perform(tick)`` for each tick that is not a Wait, until ``stop``."""

    def __init__(
        self, tick: Callable[[], Tick], perform: Callable[[Beat | FindCoordinator | Leave], None]
    ) -> None:
        self._tick = tick
        self._perform = perform
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._death: BaseException | None = None

    @property
    def death(self) -> BaseException | None:
        """What ended the thread, if anything did: it is raised by the next poll."""
        return self._death

    def start(self) -> None:
        """Begin, unless it runs."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="kclient-heartbeat", daemon=True)
            self._thread.start()

    def stop(self, timeout: float) -> None:
        """End, waiting up to ``timeout`` seconds for what is under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)
            self._thread = None

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                tick = self._tick()
                if isinstance(tick, Wait):
                    wait = min(_LONGEST_SLEEP, max(0.0, tick.until - time.monotonic()))
                    self._stop.wait(max(wait, 0.01))
                else:
                    self._perform(tick)
        except BaseException as error:
            self._death = error
            _log.exception("the heartbeat thread died")
