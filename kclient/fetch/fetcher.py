"""Records from brokers: one fetch under way at each, the next sent before the last is read.

Steps never block except for the wait at their end; what may take long is an errand.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable
from typing import cast

from kclient.cluster import Metadata
from kclient.cluster.retry import Backoff
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError, KafkaTimeout, TransportError, broker_error
from kclient.fetch import requests
from kclient.fetch.fetched import Fetched
from kclient.fetch.line import Line, Waiting
from kclient.fetch.outcomes import Outcomes
from kclient.fetch.plan import Plan
from kclient.fetch.positions import Phase, Positions
from kclient.fetch.recovery import Recovery
from kclient.net.board import Board
from kclient.net.connection import Answer, Connection
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.fetch import FetchResponse

_log = logging.getLogger(__name__)
LANE = "fetch"
_METADATA, _CONNECT = "metadata", "connect"
_SESSION_GONE = 70  # FETCH_SESSION_ID_NOT_FOUND
_UNREAD = 1  # answers of a broker that may wait unread while the next is fetched
FAR = float("inf")


class Fetcher:
    """Fetches for the partitions of ``positions``. One thread at a time may use it."""

    def __init__(
        self,
        options: ConsumerOptions,
        pool: Pool,
        metadata: Metadata,
        positions: Positions,
        recovery: Recovery,
    ) -> None:
        self.board: Board[Line] = Board()
        self.steps = 0
        """How often it looked for something to do; idle, this must hardly grow."""
        self.bytes = 0
        self.answers = 0
        self._options = options
        self._pool = pool
        self._metadata = metadata
        self._positions = positions
        self._recovery = recovery
        self._waiting = Waiting(positions)
        self._plan = Plan(metadata, positions, recovery, self._waiting.holds)
        self._tasks = Tasks(self.board.wake)
        self._backoff = Backoff(options)
        self._outcomes = Outcomes(options, metadata, positions, recovery)
        self._lines: dict[int, Line] = {}
        self._request_seconds = options["request_timeout_ms"] / 1000
        self._answer_seconds = self._request_seconds + options["fetch_max_wait_ms"] / 1000
        self._metadata_rounds = 0
        self._metadata_not_before = 0.0

    # --- for the consumer ---

    def current(self) -> Fetched | None:
        """The data to read next; it is dropped once it is empty."""
        return self._waiting.front()

    def step(self, until: float) -> None:
        """Send what can be sent, read what has come, wait for more ``until`` then at most."""
        self.steps += 1
        now = time.monotonic()
        for key, result in list(self._tasks.collect()):
            self._note_task(key, result, now)
        next_event = min(self._replan(now), self._recovery.step(self._tasks, now))
        next_event = min(next_event, self._send(now), self._check_timeouts(now))
        if self._positions.has_error:
            until = now  # the caller is to hear of it at once
        for line, can_read, can_write in self.board.wait(min(until, next_event)):
            self._serve(line, can_read, can_write)

    def pump(self) -> None:
        """Do without waiting what can be done: called while there is data to hand out."""
        self.step(0.0)

    def close(self) -> None:
        """Give the connections back."""
        for line in list(self._lines.values()):
            self._drop_line(line)
        for _, result in self._tasks.close(self._release):
            self._release(result)
        self.board.close()

    def _release(self, result: object) -> None:
        """A connection that nobody waits for any more."""
        if isinstance(result, Connection):
            result.close()
            self._pool.release(result, LANE)

    # --- planning ---

    def _replan(self, now: float) -> float:
        plan = self._plan
        if not plan.is_due(now):
            return plan.again
        is_silent = plan.make(now, self._lines)
        if plan.lacks_leader or self._metadata.is_old:
            plan.again = min(plan.again, self._want_metadata(now))
        else:
            self._metadata_rounds = 0
        for node, line in self._lines.items():
            share = plan.shares.get(node)
            line.ask_for(share.states if share else {})
            if is_silent:
                line.session.restart()
        return plan.again

    def _want_metadata(self, now: float) -> float:
        if now < self._metadata_not_before:
            return self._metadata_not_before
        topics = {tp.topic for tp in self._positions.states}
        deadline = Deadline(self._request_seconds)
        self._tasks.start(_METADATA, lambda: self._metadata.refresh(deadline, topics))
        return FAR

    # --- sending ---

    def _send(self, now: float) -> float:
        next_event = FAR
        for node, (endpoint, _) in self._plan.shares.items():
            line = self._lines.get(node)
            if line is not None and line.endpoint[1:3] != endpoint[1:3]:
                self._lose_line(line, TransportError(f"broker {node} moved to {endpoint}"))
                line = None
            if line is None:
                next_event = min(next_event, self._connect(endpoint, now))
                continue
            try:
                next_event = min(next_event, self._send_on(line, now))
            except KafkaError as error:
                self._lose_line(line, error)
        return next_event

    def _send_on(self, line: Line, now: float) -> float:
        connection = line.connection
        if connection.in_flight or line.unread > _UNREAD or not line.session.wants:
            return FAR
        not_before = max(connection.throttled_until, line.not_before)
        if not_before > now:
            return not_before
        if connection.login_due and now >= connection.login_due:
            self._release_line(line)
            return now
        ask = line.session.ask(has_sessions=line.version >= requests.SESSIONS)
        request = requests.request(ask, line.version, self._options)
        connection.post(request, version=line.version)
        line.sent_at = now
        self.board.update(line)
        return FAR

    def _check_timeouts(self, now: float) -> float:
        soonest = FAR
        for line in list(self._lines.values()):
            if line.connection.in_flight:
                due = line.sent_at + self._answer_seconds
                if due <= now:
                    text = f"{line.endpoint} did not answer a fetch in {self._answer_seconds:g} s"
                    self._lose_line(line, KafkaTimeout(text, node=line.endpoint.node))
                else:
                    soonest = min(soonest, due)
        return soonest

    # --- answers ---

    def _serve(self, line: Line, can_read: bool, can_write: bool) -> None:
        try:
            if can_write:
                line.connection.push()
                self.board.update(line)
            if can_read and (answer := line.connection.poll()) is not None:
                self._read(line, answer)
        except KafkaError as error:
            self._lose_line(line, error)

    def _read(self, line: Line, answer: Answer) -> None:
        response = cast(FetchResponse, line.connection.decode(answer))
        self.answers += 1
        self.bytes += len(answer.frame)
        if response.error_code:
            self._note_refusal(line, response.error_code)
            return
        line.accept(response.session_id)
        version = answer.to.version
        hints, places = requests.hints(response, version, line.names)
        if hints:
            self._metadata.apply_hints(hints, places)
        found = []
        session = line.session
        for tp, data in requests.partitions(response, version, line.names):
            state, sent = self._positions.states.get(tp), session.sent.get(tp)
            # Courses may have changed since: sought, paused, given to another broker.
            if state is None or sent is None or sent.token != state.token:
                continue
            if state.is_paused or tp not in session.wants:
                continue
            fetched = self._outcomes.note(state, data, line.endpoint, version)
            if fetched is not None:
                found.append(fetched)
                line.put(state)
        self._waiting.add(line, found)
        # The next request leaves before anything of this answer is decoded.
        self._send_on(line, time.monotonic())

    def _note_refusal(self, line: Line, code: int) -> None:
        """The whole request was refused, mostly because of its session: name all anew."""
        error = broker_error(code, f"fetching from {line.endpoint}")
        _log.info("%s; asking for all partitions anew", error)
        if error.stale_metadata:
            self._metadata.mark_stale()
            self._plan.again = 0.0
        until = time.monotonic() + self._backoff.seconds(line.refusals + 1)
        line.refuse(until, is_gone=code == _SESSION_GONE)

    def _lose_line(self, line: Line, error: KafkaError) -> None:
        _log.info("lost the fetch connection to %s: %s", line.endpoint, error)
        self._drop_line(line)
        self._metadata.mark_stale()
        now = time.monotonic()
        for tp in line.session.wants:
            state = self._positions.states.get(tp)
            if state is not None and state.phase is Phase.FETCHING:
                state.fail(str(error), now, now + self._backoff.seconds(state.failures + 1))
                state.preferred = -1
        self._positions.version += 1

    # --- connections and errands ---

    def _connect(self, endpoint: Endpoint, now: float) -> float:
        backoff = self._pool.backoff_until(endpoint)
        if backoff > now:
            return backoff
        deadline = Deadline(self._request_seconds)
        self._tasks.start(
            (_CONNECT, endpoint), lambda: self._pool.acquire(endpoint, LANE, deadline)
        )
        return FAR

    def _note_task(self, key: Hashable, result: object, now: float) -> None:
        self._plan.again = 0.0
        if key == _METADATA:
            self._metadata_rounds += 1
            self._metadata_not_before = now + self._backoff.seconds(self._metadata_rounds)
            if isinstance(result, KafkaError):
                self._outcomes.note_unreachable(result)
        elif isinstance(key, tuple) and key[0] == _CONNECT:
            self._note_connection(key[1], result)
        else:
            self._recovery.note_task(key, result, now)

    def _note_connection(self, endpoint: Endpoint, result: object) -> None:
        try:
            if isinstance(result, KafkaError):
                raise result
            share = self._plan.shares.get(endpoint.node)
            if endpoint.node in self._lines or share is None or share.endpoint[:3] != endpoint[:3]:
                self._release(result)  # plans have changed meanwhile
                return
            line = self._lines[endpoint.node] = Line(endpoint, cast(Connection, result))
            self.board.add(line)
        except KafkaError as error:
            self._release(result)
            self._metadata.mark_stale()
            self._outcomes.note_unreachable(error, endpoint.node)

    def _drop_line(self, line: Line) -> None:
        line.connection.close()
        self._release_line(line)

    def _release_line(self, line: Line) -> None:
        self.board.remove(line)
        del self._lines[line.endpoint.node]
        self._pool.release(line.connection, LANE)
