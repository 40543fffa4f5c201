"""Who does the I/O: one thread at a time, and whoever needs a result may be the one.

A caller of ``send`` on an idle producer writes its batch and reads the answer itself, with
no hand-over to another thread. Callers that come meanwhile wait; their records pile up in
the next batch, and when the first caller has its answer, one of them carries on.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from kclient.deadline import Deadline
from kclient.errors import KafkaTimeout


class Steps(Protocol):
    """What is carried: an engine that advances step by step."""

    def step(self, until: float) -> None:
        """Do what can be done now; wait for more until then, by time.monotonic()."""

    def wake(self) -> None:
        """Have a step that waits in another thread return."""


class _Waiter:
    __slots__ = ("done", "parked")

    def __init__(self, done: Callable[[], bool]) -> None:
        self.done = done
        self.parked = threading.Lock()
        self.parked.acquire()


class Carrier:
    """Lets threads take turns at an engine."""

    def __init__(self, engine: Steps) -> None:
        self._engine = engine
        self._lock = threading.Lock()  # guards the two below
        self._is_carried = False
        self._waiters: deque[_Waiter] = deque()

    def until(self, done: Callable[[], bool], deadline: Deadline, what: str) -> None:
        """Return when ``done()`` is true, carrying the engine if nobody else does.

        Raises KafkaTimeout at the deadline, and whatever a step raises.
        """
        while not done():
            waiter = self._enter(done)
            if waiter is None:
                self._carry(done, deadline, what)
                return
            self._engine.wake()
            try:
                if not done() and not waiter.parked.acquire(timeout=deadline.left()) and not done():
                    raise KafkaTimeout(f"{what}: not done within {deadline.seconds:g} s")
            finally:
                self._leave(waiter)

    def step(self) -> None:
        """Do what can be done now, if nobody else is at it."""
        if self._enter(None) is None:
            try:
                self._engine.step(0.0)
                self._wake_done()
            finally:
                self._hand_over()

    def _enter(self, done: Callable[[], bool] | None) -> _Waiter | None:
        """None if the engine is ours now; else a place in the line."""
        with self._lock:
            if not self._is_carried:
                self._is_carried = True
                return None
            waiter = _Waiter(done or bool)
            if done is not None:
                self._waiters.append(waiter)
            return waiter

    def _leave(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
                return
        # It had been woken to carry on; if it goes away instead, another one must.
        self._pass_on()

    def _carry(self, done: Callable[[], bool], deadline: Deadline, what: str) -> None:
        try:
            while not done():
                left = deadline.left()
                if not left:
                    raise KafkaTimeout(f"{what}: not done within {deadline.seconds:g} s")
                self._engine.step(time.monotonic() + left)
                if self._waiters:
                    self._wake_done()
        finally:
            self._hand_over()

    def _wake_done(self) -> None:
        with self._lock:
            for waiter in [each for each in self._waiters if each.done()]:
                self._waiters.remove(waiter)
                waiter.parked.release()

    def _hand_over(self) -> None:
        with self._lock:
            self._is_carried = False
        self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            if not self._is_carried and self._waiters:
                self._waiters.popleft().parked.release()
