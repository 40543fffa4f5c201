"""Who does the I/O: one thread at a time, and whoever needs a result may be the one.

A caller of ``send`` on an idle producer writes its batch and reads the answer itself, with
no hand-over to another thread. Callers that come meanwhile wait; when the first one has its
answer, one of them carries on.

An interrupt may hit a thread anywhere. So a place is given up in a ``finally`` that begins
with a plain store, which nothing can prevent; and since the call that should wake the next
thread may be the one that is interrupted, those who wait look for themselves now and then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from threading import get_ident
from typing import Protocol

from kclient.deadline import Deadline
from kclient.errors import ClientClosedError, KafkaError, KafkaTimeout

_LOOK_SECONDS = 1.0
"""How often a waiting thread looks whether it was forgotten."""


class Steps(Protocol):
    """What is carried: an engine that advances step by step."""

    is_busy: bool
    """Whether a step is being made."""
    is_telling: bool
    """Whether callbacks are running, behind a step: they may make further ones."""

    def step(self, until: float) -> None:
        """Do what can be done now; wait for more until then, by time.monotonic()."""

    def wake(self) -> None:
        """Have a step that waits in another thread return."""


class _Waiter:
    """A thread that wants something done; ``parked`` is released to wake it."""

    __slots__ = ("done", "parked", "thread")

    def __init__(self, done: Callable[[], bool]) -> None:
        self.done = done
        self.thread = get_ident()
        self.parked = threading.Lock()
        self.parked.acquire()


class Carrier:
    """Lets threads take turns at an engine."""

    def __init__(self, engine: Steps) -> None:
        self._engine = engine
        self._lock = threading.Lock()  # guards the line, and taking the place
        self._owner: _Waiter | None = None
        self._called: _Waiter | None = None
        """The one that was woken to carry on, and has not come yet."""
        self._line: dict[_Waiter, None] = {}
        self._is_retired = False
        self._vacant = threading.Event()  # set when the last one has stopped

    def until(self, done: Callable[[], bool], deadline: Deadline, what: str) -> None:
        """Return when ``done()`` is true, carrying the engine if nobody else does.

        Raises KafkaTimeout at the deadline, ClientClosedError after ``retire``, and whatever
        a step raises.
        """
        if done():
            return
        owner = self._owner
        if owner is not None and not self._is_retired and owner.thread == get_ident():
            if self._is_inside(what):
                self._carry(done, deadline, what)
                return
            self._owner = None  # an interrupt has kept this thread from giving it up
        waiter = _Waiter(done)
        try:
            while not self._take(waiter):
                self._engine.wake()
                self._park(waiter, deadline, what)
                if done():
                    return
            self._carry(done, deadline, what)
        finally:
            if self._owner is waiter:
                self._owner = None
            self._call_next(waiter)

    def step(self) -> None:
        """Do what can be done now, if nobody else is at it."""
        owner = self._owner
        if owner is not None:
            return
        waiter = _Waiter(bool)
        try:
            if self._take(waiter, stays=False):
                self._engine.step(0.0)
                self._wake_done()
        finally:
            if self._owner is waiter:
                self._owner = None
            self._call_next(waiter)

    def retire(self, deadline: Deadline) -> None:
        """Let nobody carry any more, and wait until whoever does has stopped."""
        with self._lock:
            self._is_retired = True
            for waiter in self._line:
                waiter.parked.release()
            self._line.clear()
        while self._owner is not None and not deadline.is_over:
            self._engine.wake()
            self._vacant.wait(min(deadline.left(), _LOOK_SECONDS))

    # --- the place ---

    def _take(self, waiter: _Waiter, *, stays: bool = True) -> bool:
        """Become the one who carries, else stand in line if it ``stays``."""
        with self._lock:
            self._check_retired()
            if self._owner is None:
                self._owner = waiter
                self._called = None
                self._line.pop(waiter, None)
                return True
            if stays:
                self._line[waiter] = None
            return False

    def _check_retired(self) -> None:
        if self._is_retired:
            raise ClientClosedError("the producer was closed during the call")

    def _park(self, waiter: _Waiter, deadline: Deadline, what: str) -> None:
        """Wait to be called, at most for a moment."""
        left = deadline.left()
        if waiter.done() or waiter.parked.acquire(timeout=min(left, _LOOK_SECONDS)):
            return
        if deadline.is_over and not waiter.done():
            raise _too_late(what, deadline)

    def _call_next(self, leaving: _Waiter) -> None:
        """Wake another one to carry on, unless somebody does or was called already."""
        with self._lock:
            self._line.pop(leaving, None)
            if self._is_retired:
                self._vacant.set()
            if self._called is leaving:
                self._called = None
            if self._owner is None and self._called is None and self._line:
                self._called = next(iter(self._line))
                del self._line[self._called]
                self._called.parked.release()

    def _wake_done(self) -> None:
        """Let those go whose wish has come true."""
        if not self._line:
            return
        with self._lock:
            for waiter in [each for each in self._line if each.done()]:
                del self._line[waiter]
                waiter.parked.release()

    # --- carrying ---

    def _carry(self, done: Callable[[], bool], deadline: Deadline, what: str) -> None:
        while not done():
            self._check_retired()
            left = deadline.left()
            if not left:
                raise _too_late(what, deadline)
            self._engine.step(time.monotonic() + left)
            self._wake_done()

    def _is_inside(self, what: str) -> bool:
        """Whether this thread, the owner, is in a step whose callbacks may make further ones."""
        if self._engine.is_busy:
            raise KafkaError(
                f"{what}: called by the producer's own thread, in the middle of its work; does "
                "a logging handler use the producer that it logs for?"
            )
        return self._engine.is_telling


def _too_late(what: str, deadline: Deadline) -> KafkaTimeout:
    return KafkaTimeout(f"{what}: not done within {deadline.seconds:g} s")
