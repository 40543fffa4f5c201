"""The loops of the user's thread: look after the group, take records, wait for more."""

from __future__ import annotations

import time
from collections.abc import Callable, Sized
from typing import TypeVar

from kclient.deadline import Deadline
from kclient.errors import KafkaTimeout
from kclient.fetch.fetcher import Fetcher
from kclient.fetch.positions import Positions
from kclient.fetch.reading import Reading
from kclient.types import TopicPartition

_RUN_RECORDS = 2000  # that iteration takes at once
Taken = TypeVar("Taken", bound=Sized)


class Polling:
    """Waits for records. One thread at a time; ``wakeup`` and ``end`` are for any."""

    def __init__(
        self,
        fetcher: Fetcher,
        reading: Reading,
        positions: Positions,
        drive: Callable[[], float],
    ) -> None:
        """``drive`` looks after the group, and returns when it has to be called again."""
        self.is_ending = False
        self._fetcher = fetcher
        self._reading = reading
        self._positions = positions
        self._drive = drive
        self._is_woken = False

    def wakeup(self) -> None:
        """Have who waits return at once, or the next one who does."""
        self._is_woken = True
        self._reading.wake()

    def end(self) -> None:
        """Have who waits return, and nobody wait any more."""
        self.is_ending = True
        self._reading.wake()

    def poll(self, take: Callable[[], Taken], timeout: float) -> Taken | None:
        """What ``take`` returns as soon as that is something; None when the time is over."""
        self._reading.advance()
        end = time.monotonic() + timeout
        while True:
            next_look = self._drive()
            taken = take()
            if len(taken):
                return taken
            if self._must_stop():
                return None
            is_late = time.monotonic() >= end
            self._fetcher.step(min(end, next_look))
            if is_late and self._fetcher.current() is None:
                return None

    def next_run(self) -> bool:
        """Have records for iteration; False when somebody wants it to end."""
        self._reading.advance()
        while True:
            self._reading.attention = False
            next_look = self._drive()
            if self._must_stop():
                return False
            if self._reading.next_run(_RUN_RECORDS):
                return True
            self._fetcher.step(next_look)

    def position(self, tp: TopicPartition, deadline: Deadline) -> int:
        """The next offset of an assigned partition, looked up if need be.

        Raises what keeps it from being found, KafkaTimeout with the reason.
        """
        while True:
            state = self._positions.get(tp)
            offset = self._reading.position(state).offset
            if offset >= 0:
                return offset
            next_look = self._drive()
            self._reading.raise_error()
            if deadline.is_over:
                what = f"finding the position of {tp}: not done within {deadline.seconds:g} s"
                raise KafkaTimeout(f"{what}: {state.reason}" if state.reason else what)
            self._fetcher.step(min(time.monotonic() + deadline.left(), next_look))

    def _must_stop(self) -> bool:
        """Whether somebody has called ``wakeup`` since the last time, or ``end``."""
        is_woken, self._is_woken = self._is_woken, False
        return is_woken or self.is_ending
