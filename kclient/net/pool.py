"""Connections by broker and lane, each with one owner at a time.

Lanes keep traffic apart: a fetch that waits for data never delays a heartbeat.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kclient.config import ClientOptions
from kclient.deadline import Deadline
from kclient.errors import (
    ClientClosedError,
    ForkedClientError,
    KafkaError,
    KafkaTimeout,
)
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.opening import Opener, caps_by_key
from kclient.net.security import Security

_log = logging.getLogger(__name__)


@dataclass
class _Slot:
    """The place of one connection. Whoever holds ``lock`` owns what is in it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    connection: Connection | None = None

    def empty(self) -> None:
        """Close what is in it."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


@dataclass
class _Backoff:
    """How a broker's address fared of late. ``until`` is of time.monotonic()."""

    failures: int = 0
    until: float = 0.0
    error: KafkaError | None = None


class Pool:
    """All connections of one client.

    ``lease`` for a block, ``acquire`` and ``release`` for longer. Threads that want the same
    broker and lane wait for each other.
    """

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._opener = Opener(
            options, Security.from_options(options), caps_by_key(options["api_version_caps"])
        )
        self._idle_seconds = options["connections_max_idle_ms"] / 1000
        self._request_seconds = options["request_timeout_ms"] / 1000
        self._pid = os.getpid()
        self._closing = threading.Event()
        self._lock = threading.Lock()  # guards the two below
        self._slots: dict[tuple[int, str], _Slot] = {}
        self._backoffs: dict[str, _Backoff] = {}

    def __repr__(self) -> str:
        return (
            f"<Pool {len(self._slots)} connections{', closed' if self._closing.is_set() else ''}>"
        )

    @contextlib.contextmanager
    def lease(self, endpoint: Endpoint, lane: str, deadline: Deadline) -> Iterator[Connection]:
        """A ready connection for the block. Raises what ``acquire`` raises."""
        connection = self.acquire(endpoint, lane, deadline)
        try:
            yield connection
        finally:
            self.release(connection, lane)

    def acquire(self, endpoint: Endpoint, lane: str, deadline: Deadline) -> Connection:
        """Own the connection to a broker on a lane until ``release``; it is opened if need be.

        Raises TransportError, AuthenticationError, ProtocolError, KafkaTimeout, by the stage
        that failed; ClientClosedError after ``close``; ForkedClientError in a forked child.
        """
        self.check_usable()
        self.close_idle()
        slot = self._slot(endpoint.node, lane)
        if not slot.lock.acquire(timeout=deadline.remaining()):
            raise KafkaTimeout(
                f"other threads used the {lane} connection to {endpoint} for all of the "
                f"{deadline.seconds:g} s of this call"
            )
        try:
            self.check_usable()  # it may have been closed while we waited
            slot.connection = self._usable(slot.connection, endpoint, deadline)
            return slot.connection
        except BaseException:
            slot.empty()
            slot.lock.release()
            raise

    def release(self, connection: Connection, lane: str) -> None:
        """Give a connection back; one with requests in flight is closed, for nobody waits."""
        slot = self._slot(connection.endpoint.node, lane)
        if connection.in_flight or self._closing.is_set():
            connection.close()
        if not connection.is_open:
            self._opener.forget(connection.address)
            slot.connection = None
        slot.lock.release()

    @property
    def features(self) -> Mapping[str, int]:
        """The cluster's finalized features by name, as the broker last connected to told."""
        return self._opener.features

    def check_usable(self) -> None:
        """Raise ClientClosedError after ``close``, ForkedClientError in a forked child."""
        if self._closing.is_set():
            raise ClientClosedError("the client is closed")
        if os.getpid() != self._pid:
            raise ForkedClientError(
                f"this client was made in process {self._pid} and is used in its forked child "
                f"{os.getpid()}: make a client in the child (after os.fork, in the worker's start)"
            )

    def backoff_until(self, endpoint: Endpoint) -> float:
        """When the broker may be connected to again, by time.monotonic(); 0 for now."""
        backoff = self._backoffs.get(endpoint.address)
        return backoff.until if backoff is not None else 0.0

    def last_error(self, endpoint: Endpoint) -> KafkaError | None:
        """What went wrong when the broker was last connected to, None if nothing did."""
        backoff = self._backoffs.get(endpoint.address)
        return backoff.error if backoff is not None else None

    def close_idle(self) -> None:
        """Close connections that nobody has used for ``connections_max_idle_ms``."""
        oldest = time.monotonic() - self._idle_seconds
        with self._lock:
            slots = [slot for slot in self._slots.values() if slot.connection is not None]
        for slot in slots:
            connection = slot.connection
            if connection is None or connection.last_used > oldest:
                continue
            if slot.lock.acquire(blocking=False):
                if slot.connection is connection:
                    _log.debug("closing %r: idle", connection)
                    slot.empty()
                slot.lock.release()

    def close(self) -> None:
        """Close every connection; the owners of those in use get an error.

        In a forked child it closes the child's copies and leaves the parent's alone.
        """
        self._closing.set()
        if os.getpid() != self._pid:
            # The locks may be held by threads that this process does not have.
            for slot in list(self._slots.values()):
                slot.empty()
            return
        self._opener.close()
        with self._lock:
            slots = list(self._slots.values())
        for slot in slots:
            self._close_slot(slot)

    def _close_slot(self, slot: _Slot) -> None:
        if not slot.lock.acquire(blocking=False):
            connection = slot.connection
            if connection is not None:
                connection.abort()
            return
        slot.empty()
        slot.lock.release()

    def _slot(self, node: int, lane: str) -> _Slot:
        with self._lock:
            return self._slots.setdefault((node, lane), _Slot())

    def _usable(
        self, connection: Connection | None, endpoint: Endpoint, deadline: Deadline
    ) -> Connection:
        if connection is not None and (
            connection.is_stale or connection.endpoint[1:3] != endpoint[1:3]
        ):
            # The broker hung up while nobody was looking, or has moved: no reason to complain.
            connection.close()
            self._opener.forget(connection.address)
            connection = None
        if connection is None:
            connection = self._open(endpoint, deadline)
        elif connection.login_due and time.monotonic() >= connection.login_due:
            self._log_in_again(connection, deadline)
        return connection

    def _open(self, endpoint: Endpoint, deadline: Deadline) -> Connection:
        self._await_backoff(endpoint, deadline)
        try:
            connection = self._opener.open(endpoint, deadline.within(self._request_seconds))
        except KafkaError as error:
            _explain(endpoint, error)
            self._note_failure(endpoint, error)
            raise
        with self._lock:
            self._backoffs.pop(endpoint.address, None)
        if self._closing.is_set():
            connection.close()
            raise ClientClosedError("the client was closed during the call")
        return connection

    def _log_in_again(self, connection: Connection, deadline: Deadline) -> None:
        try:
            self._opener.log_in(connection, deadline.within(self._request_seconds), again=True)
        except BaseException:
            connection.close()
            raise

    def _await_backoff(self, endpoint: Endpoint, deadline: Deadline) -> None:
        wait = self.backoff_until(endpoint) - time.monotonic()
        if wait <= 0:
            return
        if wait >= deadline.left():
            error = self.last_error(endpoint)
            raise KafkaTimeout(f"no time left to reach {endpoint} again: {error}", cause=error)
        self._closing.wait(wait)
        self.check_usable()

    def _note_failure(self, endpoint: Endpoint, error: KafkaError) -> None:
        first = self._options["reconnect_backoff_ms"] / 1000
        longest = self._options["reconnect_backoff_max_ms"] / 1000
        with self._lock:
            backoff = self._backoffs.setdefault(endpoint.address, _Backoff())
            seconds = min(first * 2**backoff.failures, longest) * random.uniform(0.8, 1.2)
            backoff.failures = min(backoff.failures + 1, 20)
            backoff.until = time.monotonic() + seconds
            backoff.error = error


def _explain(endpoint: Endpoint, error: KafkaError) -> None:
    """Say of a broker that advertises a bad address that the bootstrap itself worked."""
    if not endpoint.is_bootstrap and getattr(error, "stage", "") in ("dns", "tcp", "tls"):
        error.args = (
            f"the cluster was reached, but broker {endpoint.node} advertises "
            f"{endpoint.address}: {error} (advertised.listeners of that broker must name what "
            "clients can reach)",
        )
