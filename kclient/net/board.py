"""Several connections watched by one thread, which others can wake."""

from __future__ import annotations

import select
import socket
import time
from typing import Generic, Protocol, TypeVar

from kclient.net.connection import Connection


class HasConnection(Protocol):
    """Whatever its owner keeps of a connection."""

    connection: Connection


L = TypeVar("L", bound=HasConnection)


class Board(Generic[L]):
    """Waits until a connection can be read from or written to, or somebody calls ``wake``.

    One thread uses it; ``wake`` is for the others.
    """

    def __init__(self) -> None:
        self.is_waiting = False
        self._poller = select.poll()
        self._lines: dict[int, tuple[L, int]] = {}
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._poller.register(self._woken, select.POLLIN)

    def add(self, line: L) -> None:
        """Watch a connection from now on."""
        fd = line.connection.fileno()
        self._lines[fd] = (line, select.POLLIN)
        self._poller.register(fd, select.POLLIN)

    def remove(self, line: L) -> None:
        """Watch it no more; it may be closed already."""
        for fd, (each, _) in list(self._lines.items()):
            if each is line:
                del self._lines[fd]
                self._poller.unregister(fd)

    def update(self, line: L) -> None:
        """Look out for room to send while part of a request waits for it."""
        events = select.POLLIN | (select.POLLOUT if line.connection.has_unsent else 0)
        fd = line.connection.fileno()
        if self._lines[fd][1] != events:
            self._lines[fd] = (line, events)
            self._poller.modify(fd, events)

    def wait(self, until: float) -> list[tuple[L, bool, bool]]:
        """The lines that can be (read, written), after waiting ``until`` then at most.

        ``until`` is of time.monotonic(). Returns early, maybe with nothing, after ``wake``.
        """
        left = until - time.monotonic()
        self.is_waiting = True
        try:
            events = self._poller.poll(max(0.0, min(left, 1e6) * 1000 + (left > 0)))
        finally:
            self.is_waiting = False
        ready = []
        for fd, event in events:
            if fd in self._lines:
                line = self._lines[fd][0]
                ready.append((line, bool(event & ~select.POLLOUT), bool(event & select.POLLOUT)))
            else:
                self._woken.recv(4096)
        return ready

    def wake(self) -> None:
        """Have ``wait`` return at once, or the next one; from any thread."""
        try:
            self._waker.send(b"\0")
        except OSError:
            return  # it is awake already, or closed

    def close(self) -> None:
        """Free the sockets. The connections are their owner's."""
        self._waker.close()
        self._woken.close()
