"""The connections that batches go out on: one for each broker, all watched together."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from kclient.delivery.batch import Batch
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool

LANE = "produce"
_QUIET_SECONDS = 5.0
"""A connection that was not used for so long is looked at before it is used again."""

_LONGEST_WAIT = 3600.0  # in seconds; the system's own limit is 24 days


class Sent(NamedTuple):
    """A request in flight: its batches, and the names of the topic ids in it."""

    batches: list[Batch]
    version: int
    names: Mapping[UUID, str]
    sent_at: float


class Line:
    """The connection to one broker, and what was sent on it."""

    __slots__ = ("connection", "endpoint", "events", "fd", "sent")

    def __init__(self, endpoint: Endpoint, connection: Connection) -> None:
        self.endpoint = endpoint
        self.connection = connection
        self.fd = connection.fileno()
        self.sent: deque[Sent] = deque()
        self.events = select.POLLIN

    def is_stale(self, leader: Endpoint, now: float) -> bool:
        """Whether it is broken, goes to an address that is no longer the leader's, or ended."""
        connection = self.connection
        if not connection.is_open or self.endpoint[1:3] != leader[1:3]:
            return True
        is_idle = not self.sent and now - connection.last_used > _QUIET_SECONDS
        return is_idle and connection.is_stale


class Lines:
    """All lines of a producer. Used by one thread at a time, except ``wake``."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._by_node: dict[int, Line] = {}
        self._by_fd: dict[int, Line] = {}
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._poller = select.poll()
        self._poller.register(self._woken, select.POLLIN)

    def __iter__(self) -> Iterator[Line]:
        return iter(list(self._by_node.values()))

    def get(self, node: int) -> Line | None:
        """The line to a broker, if there is one."""
        return self._by_node.get(node)

    def add(self, endpoint: Endpoint, connection: Connection) -> None:
        """Watch a connection that the pool has opened."""
        line = Line(endpoint, connection)
        self._by_node[endpoint.node] = line
        self._by_fd[line.fd] = line
        self._poller.register(line.fd, line.events)

    def watch(self, line: Line) -> None:
        """Wait for room to write, too, while something is unsent."""
        events = select.POLLIN
        if line.connection.has_unsent:
            events |= select.POLLOUT
        if events != line.events:
            self._poller.modify(line.fd, events)
            line.events = events

    def drop(self, line: Line) -> None:
        """Close a connection."""
        line.connection.close()
        self.release(line)

    def release(self, line: Line) -> None:
        """Give a connection back to the pool, which closes or keeps it.

        May be called again, to complete what an interrupt left undone.
        """
        if self._by_fd.pop(line.fd, None) is not None:
            with contextlib.suppress(KeyError):  # an interrupt may have come before it was there
                self._poller.unregister(line.fd)
        if self._by_node.get(line.endpoint.node) is line:
            with contextlib.suppress(RuntimeError):  # or after it was given back
                self._pool.release(line.connection, LANE)
            del self._by_node[line.endpoint.node]

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """Numbers and events of what can be read or written, waiting for it so long at most."""
        return self._poller.poll(min(max(seconds, 0.0), _LONGEST_WAIT) * 1000)

    def at(self, fd: int) -> Line | None:
        """The line of a number from ``wait``; None if it woke us, or the line is gone."""
        line = self._by_fd.get(fd)
        if line is None and fd == self._woken.fileno():
            self._woken.recv(4096)
        return line

    def wake(self) -> None:
        """Have ``wait`` return soon; from any thread."""
        try:
            self._waker.send(b"\0")
        except OSError:
            return  # the buffer is full, so it is awake anyway; or all is closed

    def timed_out(self, seconds: float) -> tuple[list[Line], float]:
        """Lines whose oldest request has waited for so long; when the next one will have."""
        now, late, soonest = time.monotonic(), [], float("inf")
        for line in self._by_node.values():
            if line.sent:
                due = line.sent[0].sent_at + seconds
                if due <= now:
                    late.append(line)
                else:
                    soonest = min(soonest, due)
        return late, soonest

    def close(self) -> None:
        """Give everything back."""
        for line in self:
            self.drop(line)
        self._waker.close()
        self._woken.close()
