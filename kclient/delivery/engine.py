"""Batches to brokers and answers back: one step at a time, by whichever thread carries it.

Nothing here blocks except the wait at the end of a step. What may take long (connecting,
metadata, a producer id) runs as an errand, and wakes the engine when it has ended.
"""

from __future__ import annotations

import logging
import select
import socket
import time
from collections import deque
from collections.abc import Hashable
from typing import NamedTuple, cast

from kclient.cluster import Metadata
from kclient.cluster.retry import Backoff
from kclient.cluster.tasks import Tasks
from kclient.config import ProducerOptions
from kclient.deadline import Deadline
from kclient.delivery import produce
from kclient.delivery.accumulator import FAR, Accumulator, Partition
from kclient.delivery.batch import Batch
from kclient.delivery.identity import Identity
from kclient.delivery.metrics import Metrics
from kclient.delivery.settlement import Settlement
from kclient.errors import (
    AuthenticationError,
    KafkaError,
    KafkaTimeout,
    TransportError,
    UnsupportedVersion,
)
from kclient.net.connection import Answer, Connection
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse

_log = logging.getLogger(__name__)
LANE = "produce"
_METADATA = "metadata"
_CONNECT = "connect"


class _Sent(NamedTuple):
    """A request in flight."""

    batches: list[Batch]
    version: int
    sent_at: float


class _Line:
    """The connection to one broker, and what was sent on it."""

    __slots__ = ("connection", "endpoint", "events", "sent")

    def __init__(self, endpoint: Endpoint, connection: Connection) -> None:
        self.endpoint = endpoint
        self.connection = connection
        self.sent: deque[_Sent] = deque()
        self.events = select.POLLIN


class Engine:
    """Drives the accumulator's batches. One thread at a time may call ``step``."""

    def __init__(
        self,
        options: ProducerOptions,
        pool: Pool,
        metadata: Metadata,
        accumulator: Accumulator,
        identity: Identity,
        metrics: Metrics,
    ) -> None:
        self._options = options
        self._pool = pool
        self._metadata = metadata
        self._accumulator = accumulator
        self._identity = identity
        self._metrics = metrics
        self._backoff = Backoff(options)
        self._settlement = Settlement(accumulator, identity, metadata, self._backoff, metrics)
        self._acks = -1 if options["acks"] in ("all", -1) else int(options["acks"])
        self._max_request = options["max_request_size"]
        self._max_in_flight = options["max_in_flight_requests_per_connection"]
        self._request_seconds = options["request_timeout_ms"] / 1000
        self._lines: dict[int, _Line] = {}
        self._by_fd: dict[int, _Line] = {}
        self._metadata_not_before = 0.0
        self._metadata_failures = 0
        self._waker, self._woken = socket.socketpair()
        for end in (self._waker, self._woken):
            end.setblocking(False)
        self._poller = select.poll()
        self._poller.register(self._woken, select.POLLIN)
        self._is_waiting = False
        self._tasks = Tasks(self.wake)

    # --- the step ---

    def step(self, until: float) -> None:
        """Send what may leave, read what has come, and wait for more ``until`` then at most."""
        try:
            self._step(until)
        except BaseException:
            if not self._is_waiting:  # interrupted in the middle of something
                self._recover()
            raise
        finally:
            self._is_waiting = False

    def _step(self, until: float) -> None:
        now = time.monotonic()
        for key, result in self._tasks.collect():
            self._note_task(key, result)
            until = now  # it may have ended what the caller waits for, and nothing else will come
        self._give_up_expired(now)
        next_event = min(self._send_ready(now), self._check_timeouts(now))
        wait = min(until, next_event) - time.monotonic()
        self._is_waiting = True
        ready = self._poller.poll(max(0.0, wait * 1000 + (wait > 0)))
        self._is_waiting = False
        for fd, events in ready:
            self._serve(fd, events)

    def _recover(self) -> None:
        """After an interrupt nobody knows what has left: begin anew with all that was out."""
        for line in list(self._lines.values()):
            self._drop_line(line)
        with self._accumulator.lock:
            partitions = list(self._accumulator.partitions.values())
        lost = [batch for partition in partitions for batch in partition.in_flight]
        self._settlement.leave_open(lost, TransportError("interrupted"))

    def wake(self) -> None:
        """Have a step that waits return soon; from any thread."""
        try:
            self._waker.send(b"\0")
        except (BlockingIOError, OSError):
            return  # awake anyway, or closed

    def wake_if_waiting(self) -> None:
        """As ``wake``, when a step waits at the moment: for callers that come often."""
        if self._is_waiting:
            self.wake()

    def drop_queued(self, error: KafkaError) -> None:
        """End what has not been sent with an error; what is in flight goes on."""
        self._settlement.fail_partitions(lambda tp: True, error)

    def drop_all(self, error: KafkaError) -> None:
        """End everything that has no outcome with an error."""
        self.drop_queued(error)
        with self._accumulator.lock:
            partitions = list(self._accumulator.partitions.values())
        for batch in [batch for each in partitions for batch in each.in_flight]:
            self._settlement.fail(batch, error)

    def close(self) -> None:
        """Give connections and sockets back. Batches that are left are the caller's affair."""
        for line in list(self._lines.values()):
            self._drop_line(line)
        self._waker.close()
        self._woken.close()

    def _serve(self, fd: int, events: int) -> None:
        line = self._by_fd.get(fd)
        if line is None:
            self._woken.recv(4096)
            return
        try:
            if events & select.POLLOUT:
                line.connection.push()
            if events & ~select.POLLOUT:
                self._read_answers(line)
            self._watch(line)
        except KafkaError as error:
            self._lose_line(line, error)

    # --- sending ---

    def _send_ready(self, now: float) -> float:
        """Send all that may leave; return when there may be more to do."""
        accumulator = self._accumulator
        with accumulator.lock:
            next_event = min(accumulator.note_time(now), accumulator.next_expiry)
            if not accumulator.ready:
                return next_event
            waiting = list(accumulator.ready)
        if not self._identity.is_ready(self._tasks):
            return min(next_event, self._identity.not_before)
        groups: dict[Endpoint, list[Partition]] = {}
        for partition in waiting:
            leader = self._metadata.leader(*partition.tp)
            if leader is not None:
                groups.setdefault(leader, []).append(partition)
        if len(groups) < len(waiting) and self._lacks_leader(waiting):
            next_event = min(next_event, self._want_metadata(now))
        elif self._metadata.is_old:
            self._want_metadata(now)
        for leader, partitions in groups.items():
            next_event = min(next_event, self._send_to(leader, partitions, now))
        return next_event

    def _lacks_leader(self, partitions: list[Partition]) -> bool:
        return any(self._metadata.leader(*partition.tp) is None for partition in partitions)

    def _send_to(self, leader: Endpoint, partitions: list[Partition], now: float) -> float:
        line = self._line(leader, now)
        if line is None:
            backoff = self._pool.backoff_until(leader)
            return backoff if backoff > now else FAR
        connection = line.connection
        if connection.throttled_until > now:
            return connection.throttled_until
        next_event = FAR
        try:
            while connection.in_flight < self._max_in_flight:
                batches, soonest = self._take(partitions, now)
                next_event = min(next_event, soonest)
                if not batches:
                    break
                self._post(line, batches)
            self._watch(line)
        except KafkaError as error:
            self._lose_line(line, error)
        return next_event

    def _take(self, partitions: list[Partition], now: float) -> tuple[list[Batch], float]:
        """At most one batch of each partition, as much as one request may hold."""
        taken: list[Batch] = []
        size, soonest = 0, FAR
        accumulator = self._accumulator
        with accumulator.lock:
            for partition in partitions:
                if partition not in accumulator.ready:
                    continue
                batch = partition.queue[0]
                if batch.not_before > now:
                    soonest = min(soonest, batch.not_before)
                    continue
                if taken and size + batch.size > self._max_request:
                    break
                if self._identity.may_send(partition, batch, self._tasks):
                    taken.append(accumulator.take(partition))
                    size += batch.size
        return taken, soonest

    def _post(self, line: _Line, batches: list[Batch]) -> None:
        connection = line.connection
        version = min(connection.version_of(ProduceRequest), self._identity.newest_produce)
        fitting = [batch for batch in batches if self._fits(batch, version)]
        if not fitting:
            return
        topics = self._metadata.view.topics
        ids = {batch.tp.topic: topics[batch.tp.topic].topic_id for batch in fitting}
        request = produce.request(
            fitting,
            version,
            ids,
            acks=self._acks,
            timeout_ms=self._options["request_timeout_ms"],
            transactional_id=self._options["transactional_id"],
        )
        for batch in fitting:
            batch.attempts += 1
        # From here on an error leaves the outcome open: the line is lost, and all on it.
        line.sent.append(_Sent(fitting, version, time.monotonic()))
        self._metrics.note_request(fitting)
        connection.post(request, version=version, answered=bool(self._acks))
        if not self._acks:
            line.sent.pop()
            self._settlement.succeed_unasked(fitting)

    def _fits(self, batch: Batch, version: int) -> bool:
        self._accumulator.magic = min(self._accumulator.magic, produce.magic_for(version))
        try:
            produce.fit(batch, version)
            batch.sealed()
        except KafkaError as error:
            self._settlement.fail(batch, error)
            return False
        return True

    # --- answers ---

    def _read_answers(self, line: _Line) -> None:
        connection = line.connection
        if not connection.in_flight:
            connection.poll()  # raises: the broker has hung up, or says something unasked
        while connection.in_flight and (answer := connection.poll()) is not None:
            self._settle(line, line.sent.popleft(), answer)

    def _settle(self, line: _Line, sent: _Sent, answer: Answer) -> None:
        try:
            response = cast(ProduceResponse, line.connection.decode(answer))
        except KafkaError as error:
            line.sent.appendleft(sent)
            raise error
        self._metrics.note_answer(time.monotonic() - sent.sent_at, response.throttle_time_ms)
        view = self._metadata.view
        self._metadata.apply_hints(*produce.hints(response, view, sent.version))
        told = dict(produce.outcomes(response, view.names, sent.version))
        self._settlement.settle(sent.batches, told, line.endpoint)

    def _lose_line(self, line: _Line, error: KafkaError) -> None:
        """A connection broke: what was on it may have been written or not."""
        lost = [batch for sent in line.sent for batch in sent.batches]
        self._drop_line(line)
        self._metadata.mark_stale()
        if lost:
            _log.info(
                "lost the connection to %s with %d batches: %s", line.endpoint, len(lost), error
            )
        self._settlement.leave_open(lost, error)

    def _check_timeouts(self, now: float) -> float:
        """Break connections whose oldest request has waited for too long."""
        soonest = FAR
        for line in list(self._lines.values()):
            if line.sent:
                due = line.sent[0].sent_at + self._request_seconds
                if due <= now:
                    text = f"{line.endpoint} did not answer within {self._request_seconds:g} s"
                    self._lose_line(line, KafkaTimeout(text, node=line.endpoint.node))
                else:
                    soonest = min(soonest, due)
        return soonest

    def _give_up_expired(self, now: float) -> None:
        with self._accumulator.lock:
            expired = self._accumulator.expired(now)
        for batch in expired:
            self._settlement.expire(batch, self._trouble(batch))

    def _trouble(self, batch: Batch) -> str:
        """What kept a batch from being delivered, as far as is known."""
        leader = self._metadata.leader(*batch.tp)
        if leader is None:
            return "its partition has no leader that is known"
        error = self._pool.last_error(leader)
        return str(error) if error is not None else f"{leader} did not acknowledge it"

    # --- connections and errands ---

    def _line(self, leader: Endpoint, now: float) -> _Line | None:
        line = self._lines.get(leader.node)
        if line is not None:
            if line.endpoint[1:3] == leader[1:3] and line.connection.is_open:
                return None if self._must_log_in(line, now) else line
            self._lose_line(line, TransportError(f"broker {leader.node} moved to {leader}"))
        if self._pool.backoff_until(leader) <= now:
            self._tasks.start((_CONNECT, leader), lambda: self._connect(leader))
        return None

    def _must_log_in(self, line: _Line, now: float) -> bool:
        """Park a line whose session ends soon; the pool logs in again once it is quiet."""
        due = line.connection.login_due
        if not due or now < due:
            return False
        if not line.sent:
            self._release_line(line)
        return True

    def _connect(self, leader: Endpoint) -> Connection:
        return self._pool.acquire(leader, LANE, Deadline(self._request_seconds))

    def _note_task(self, key: Hashable, result: object) -> None:
        if key == _METADATA:
            self._note_metadata(result)
        elif isinstance(key, tuple) and key[0] == _CONNECT:
            self._note_connection(key[1], result)
        else:
            self._identity.note_task(key, result)
            if self._identity.error is not None:
                self._settlement.fail_partitions(lambda tp: True, self._identity.error)

    def _note_connection(self, leader: Endpoint, result: object) -> None:
        if isinstance(result, Connection):
            line = self._lines[leader.node] = _Line(leader, result)
            self._by_fd[result.fileno()] = line
            self._poller.register(result.fileno(), select.POLLIN)
            return
        self._metadata.mark_stale()
        if isinstance(result, (AuthenticationError, UnsupportedVersion)):
            self._settlement.fail_partitions(
                lambda tp: self._metadata.leader(*tp) == leader, result
            )

    def _note_metadata(self, result: object) -> None:
        if isinstance(result, KafkaError):
            self._metadata_failures += 1
            if not result.retriable:
                self._settlement.fail_partitions(lambda tp: True, result)
        else:
            self._metadata_failures = 0
            self._settlement.check_topics()
        wait = self._backoff.seconds(self._metadata_failures + 1)
        self._metadata_not_before = time.monotonic() + wait

    def _want_metadata(self, now: float) -> float:
        """Have metadata refreshed, not too often; when to look again if nothing wakes us."""
        if now < self._metadata_not_before:
            return self._metadata_not_before
        self._metadata.mark_stale()
        with self._accumulator.lock:
            topics = {tp.topic for tp in self._accumulator.partitions}
        deadline = Deadline(self._request_seconds)
        self._tasks.start(_METADATA, lambda: self._metadata.refresh(deadline, topics))
        return FAR

    def _watch(self, line: _Line) -> None:
        events = select.POLLIN
        if line.connection.has_unsent:
            events |= select.POLLOUT
        if events != line.events:
            self._poller.modify(line.connection.fileno(), events)
            line.events = events

    def _drop_line(self, line: _Line) -> None:
        line.connection.close()
        self._release_line(line)

    def _release_line(self, line: _Line) -> None:
        """Give a connection back to the pool, which closes or keeps it."""
        fd = next(fd for fd, each in self._by_fd.items() if each is line)
        del self._by_fd[fd]
        self._poller.unregister(fd)
        del self._lines[line.endpoint.node]
        self._pool.release(line.connection, LANE)
