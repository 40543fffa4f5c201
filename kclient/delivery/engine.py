"""Batches to brokers and answers back: one step at a time, by whichever thread carries it.

Nothing here blocks except the wait at the end of a step. What may take long (connecting,
metadata, a producer id) runs as an errand, and wakes the engine when it has ended.
"""

from __future__ import annotations

import logging
import select
import time
from collections import deque
from collections.abc import Callable
from typing import cast

from kclient.cluster import ClusterView, Metadata
from kclient.cluster.retry import Backoff
from kclient.config import ProducerOptions
from kclient.delivery import produce
from kclient.delivery.accumulator import FAR, Accumulator, Partition
from kclient.delivery.batch import Batch
from kclient.delivery.errands import Errands
from kclient.delivery.identity import Identity
from kclient.delivery.lines import Line, Lines, Sent
from kclient.delivery.metrics import Metrics
from kclient.delivery.settlement import Settlement
from kclient.errors import KafkaError, KafkaTimeout, TransportError
from kclient.net.connection import Answer
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.produce import ProduceRequest, ProduceResponse

_log = logging.getLogger(__name__)


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
        self.is_busy = self.is_telling = False
        self.settlement = Settlement(accumulator, identity, metadata, Backoff(options), metrics)
        self._options = options
        self._pool = pool
        self._metadata = metadata
        self._accumulator = accumulator
        self._identity = identity
        self._metrics = metrics
        self._lines = Lines(pool)
        self._errands = Errands(options, pool, metadata, identity, self._lines, self.settlement)
        self._acks = -1 if options["acks"] in ("all", -1) else int(options["acks"])
        self._max_request = options["max_request_size"]
        self._max_in_flight = options["max_in_flight_requests_per_connection"]
        self._request_seconds = options["request_timeout_ms"] / 1000
        self._orders: deque[Callable[[], None]] = deque()
        self._may_wait = False
        """Whether a step may be about to wait, or does: news must wake it."""
        self._has_lost = False
        """Whether a connection broke in this step, so that batches wait anew."""

    # --- the step ---

    def step(self, until: float) -> None:
        """Send what may leave, read what has come, and wait for more ``until`` then at most.

        Callbacks of futures run at its end, when all is in order: they may use the producer.
        """
        is_quiet = False
        try:
            self.is_busy = True
            self._may_wait = True  # before anything is looked at, so that no news is missed
            self._has_lost = False
            next_event = self._send()
            is_quiet = True
            ready = self._lines.wait(min(until, next_event) - time.monotonic())
            is_quiet = self._may_wait = False
            for fd, events in ready:
                self._serve(fd, events)
        except BaseException:
            if not is_quiet:  # interrupted in the middle of something
                self._recover()
            raise
        finally:
            self._may_wait = self.is_busy = False
        self.tell()

    def tell(self) -> None:
        """Tell futures of the batches that have ended; callbacks may lead back here."""
        ended = self.settlement.ended
        if not ended:
            return
        self.is_telling = True
        try:
            while ended:
                batch = ended[0]
                if batch.interested:  # in the order of the records, as Java's callbacks run
                    future = batch.interested[0]
                    future.tell()
                    if batch.interested and batch.interested[0] is future:
                        batch.interested.popleft()
                else:
                    ended.popleft()
        finally:
            self.is_telling = False

    def _send(self) -> float:
        """Do all that can be done without waiting; when there may be more to do."""
        has_news = bool(self._orders)
        while self._orders:
            self._orders[0]()
            self._orders.popleft()
        if not self._errands.tasks.is_idle:
            self._errands.collect()
        now = time.monotonic()
        next_event = min(self._send_ready(now), self._check_timeouts())
        # What the caller waits for may just have ended, and what was lost waits anew.
        has_news = has_news or self._has_lost or bool(self.settlement.ended)
        return now if has_news else next_event

    def _recover(self) -> None:
        """After an interrupt nobody knows what has left: begin anew with all that was out."""
        _log.info("interrupted: the connections are closed, and what was in flight goes again")
        for line in self._lines:
            self._lines.drop(line)
        with self._accumulator.lock:
            for partition in self._accumulator.partitions.values():
                for batch in partition.unsettled():
                    if batch.is_done:
                        batch.finish(-1)  # completes what may not have been told
            self._accumulator.repair()
            lost = [
                batch
                for partition in self._accumulator.partitions.values()
                for batch in partition.in_flight
            ]
        self.settlement.leave_open(lost)

    def wake(self) -> None:
        """Have a step that waits return soon; from any thread."""
        self._lines.wake()

    def wake_if_waiting(self) -> None:
        """As ``wake``, when a step waits at the moment: for callers that come often."""
        if self._may_wait:
            self._lines.wake()

    def order(self, action: Callable[[], None]) -> Callable[[], bool]:
        """Have something done by whoever carries the engine; returns what tells if it was."""
        is_done = False

        def act() -> None:
            nonlocal is_done
            action()
            is_done = True

        self._orders.append(act)
        self._lines.wake()
        return lambda: is_done

    def close(self) -> None:
        """Give connections and sockets back. Batches that are left are the caller's affair."""
        self._lines.close()

    def _serve(self, fd: int, events: int) -> None:
        line = self._lines.at(fd)
        if line is None:
            return
        try:
            if events & select.POLLOUT:
                line.connection.push()
            if events & ~select.POLLOUT:
                self._read_answers(line)
            self._lines.watch(line)
        except KafkaError as error:
            self._lose_line(line, error)

    # --- sending ---

    def _send_ready(self, now: float) -> float:
        """Send all that may leave; return when there may be more to do."""
        refusal = self._identity.refusal
        if refusal is not None:
            self.settlement.fail_queued(refusal)
        accumulator = self._accumulator
        with accumulator.lock:
            expired = accumulator.expired(now)
            next_event = min(accumulator.note_time(now), accumulator.next_expiry)
            waiting = list(accumulator.ready)
        for batch in expired:
            self.settlement.expire(batch, self.trouble(batch))
        if not waiting:
            return next_event
        if not self._identity.is_ready(self._errands.tasks):
            return min(next_event, self._identity.not_before or FAR)
        view = self._metadata.view
        groups: dict[Endpoint, list[Partition]] = {}
        lacks_leader = False
        for partition in waiting:
            leader = view.leader(partition.tp)
            if leader is None:
                lacks_leader = True
            else:
                groups.setdefault(leader, []).append(partition)
        if lacks_leader or self._metadata.is_old:
            next_event = min(next_event, self._errands.want_metadata(now))
        for leader, partitions in groups.items():
            next_event = min(next_event, self._send_to(leader, partitions, view, now))
        self._identity.run_errands(self._errands.tasks)
        return next_event

    def _send_to(
        self, leader: Endpoint, partitions: list[Partition], view: ClusterView, now: float
    ) -> float:
        line = self._line(leader, now)
        if line is None:
            backoff = self._pool.backoff_until(leader)
            return backoff if backoff > now else FAR
        connection = line.connection
        if connection.throttled_until > now:
            return connection.throttled_until
        next_event = FAR
        try:
            version = min(connection.version_of(ProduceRequest), self._identity.newest_produce)
            while connection.in_flight < self._max_in_flight:
                batches, soonest = self._take(partitions, now)
                next_event = min(next_event, soonest)
                if not batches:
                    break
                self._post(line, batches, version, view)
                if not self._accumulator.ready:
                    break
            if connection.has_unsent or line.events != select.POLLIN:
                self._lines.watch(line)
        except KafkaError as error:
            self._lose_line(line, error)
        return next_event

    def _line(self, leader: Endpoint, now: float) -> Line | None:
        """The line to a broker, unless it has to be made first, or waits for a new login."""
        line = self._lines.get(leader.node)
        if line is not None and line.is_stale(leader, now):
            self._lose_line(line, TransportError(f"{line.endpoint} hung up, or moved"))
            line = None
        due = 0.0 if line is None else line.connection.login_due
        if line is None or not due or now < due:
            if line is None:
                self._errands.want_connection(leader, now)
            return line
        if not line.sent:  # quiet now: the pool logs in again before it hands it out
            self._lines.release(line)
            self._errands.want_connection(leader, now)
        return None

    def _take(self, partitions: list[Partition], now: float) -> tuple[list[Batch], float]:
        """At most one batch of each partition, as much as one request may hold.

        The partitions that were looked at go to the end of the list.
        """
        taken: list[Batch] = []
        size, soonest, seen = 0, FAR, 0
        accumulator = self._accumulator
        with accumulator.lock:
            for partition in partitions:
                if partition in accumulator.ready:
                    batch = partition.queue[0]
                    if batch.not_before > now:
                        soonest = min(soonest, batch.not_before)
                    elif taken and size + batch.size > self._max_request:
                        break
                    elif self._identity.may_send(partition, batch):
                        taken.append(accumulator.take(partition))
                        size += batch.size
                seen += 1
        if seen < len(partitions):
            partitions[:] = partitions[seen:] + partitions[:seen]
        return taken, soonest

    def _post(self, line: Line, batches: list[Batch], version: int, view: ClusterView) -> None:
        fitting = [batch for batch in batches if self._fits(batch, version)]
        if not fitting:
            return
        ids = {batch.tp.topic: view.topics[batch.tp.topic].topic_id for batch in fitting}
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
        names = {each: name for name, each in ids.items()}
        line.sent.append(Sent(fitting, version, names, time.monotonic()))
        self._metrics.note_request(fitting)
        line.connection.post(request, version=version, answered=bool(self._acks))
        if not self._acks:
            line.sent.pop()
            self.settlement.succeed_unasked(fitting)

    def _fits(self, batch: Batch, version: int) -> bool:
        self._accumulator.magic = min(self._accumulator.magic, produce.magic_for(version))
        try:
            produce.fit(batch, version)
            batch.sealed()
        except KafkaError as error:
            self.settlement.fail(batch, error)
            return False
        return True

    # --- answers ---

    def _read_answers(self, line: Line) -> None:
        connection = line.connection
        if not connection.in_flight:
            connection.poll()  # raises: the broker has hung up, or says something unasked
        while connection.in_flight and (answer := connection.poll()) is not None:
            self._settle(line, answer)

    def _settle(self, line: Line, answer: Answer) -> None:
        # It leaves the line only when it could be read: else it is lost with the line.
        response = cast(ProduceResponse, line.connection.decode(answer))
        sent = line.sent.popleft()
        self._metrics.note_answer(time.monotonic() - sent.sent_at, response.throttle_time_ms)
        if response.node_endpoints:
            self._metadata.apply_hints(*produce.hints(response, sent.names, sent.version))
        told = dict(produce.outcomes(response, sent.names, sent.version))
        self.settlement.settle(sent.batches, told, line.endpoint)

    def _lose_line(self, line: Line, error: KafkaError) -> None:
        """A connection broke: what was on it may have been written or not."""
        self._has_lost = True
        lost = [batch for sent in line.sent for batch in sent.batches]
        self._lines.drop(line)
        self._metadata.mark_stale()
        if lost:
            _log.info(
                "lost the connection to %s with %d batches: %s", line.endpoint, len(lost), error
            )
        self.settlement.leave_open(lost)

    def _check_timeouts(self) -> float:
        """Break connections whose oldest request has waited for too long."""
        late, soonest = self._lines.timed_out(self._request_seconds)
        for line in late:
            text = f"{line.endpoint} did not answer within {self._request_seconds:g} s"
            self._lose_line(line, KafkaTimeout(text, node=line.endpoint.node))
        return soonest

    def trouble(self, batch: Batch) -> str:
        """What kept a batch from being delivered, as far as is known."""
        leader = self._metadata.leader(*batch.tp)
        if self._identity.trouble is not None:
            return f"no producer id could be had: {self._identity.trouble}"
        if leader is None:
            return "its partition has no leader that is known"
        error = self._pool.last_error(leader)
        if error is not None:
            return str(error)
        return f"{leader} did not acknowledge it" if batch.attempts else f"{leader} was not ready"
