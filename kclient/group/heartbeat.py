"""The thread that tells the coordinator that this member lives, whatever the user is doing."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kclient.errors import KafkaError

_log = logging.getLogger(__name__)
_LONGEST_SLEEP = 1.0
_SHORTEST_SLEEP = 0.01


class Heartbeat:
    """Calls ``beat`` at the times that it returns (of time.monotonic()), until ``stop``."""

    def __init__(self, beat: Callable[[], float]) -> None:
        self._beat = beat
        self._is_stopping = False
        self._nudged = threading.Event()
        self._thread: threading.Thread | None = None
        self._death: BaseException | None = None

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self._death is not None:
            error = KafkaError(f"the consumer's heartbeat thread died: {self._death!r}")
            raise error from self._death

    def start(self) -> None:
        """Begin, unless it runs."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kclient-heartbeat", daemon=True)
            self._thread.start()

    def nudge(self) -> None:
        """Have it beat now: there may be news to send."""
        self._nudged.set()

    def stop(self) -> None:
        """Have it end after what is under way."""
        self._is_stopping = True
        self._nudged.set()

    def join(self, seconds: float) -> None:
        """Wait up to ``seconds`` for its end."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                until = self._beat()
                wait = min(_LONGEST_SLEEP, until - time.monotonic())
                self._nudged.wait(max(wait, _SHORTEST_SLEEP))
                self._nudged.clear()
        except BaseException as error:
            self._death = error
            _log.exception("the heartbeat thread died")
