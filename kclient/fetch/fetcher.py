"""Records from brokers: one fetch under way at each, the next sent before the last is read.

Steps never block except for the wait at their end; what may take long is an errand.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Hashable
from typing import NamedTuple, cast

from kclient.cluster import Metadata
from kclient.cluster.retry import Backoff
from kclient.cluster.tasks import Tasks
from kclient.config import ConsumerOptions
from kclient.deadline import Deadline
from kclient.errors import KafkaError, KafkaTimeout, TransportError
from kclient.fetch import requests
from kclient.fetch.fetched import Fetched
from kclient.fetch.outcomes import Outcomes
from kclient.fetch.positions import PartitionState, Phase, Positions
from kclient.fetch.recovery import Recovery
from kclient.fetch.session import FetchSession, Want
from kclient.net.board import Board
from kclient.net.connection import Answer, Connection
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.fetch import FetchRequest, FetchResponse
from kclient.types import TopicPartition

_log = logging.getLogger(__name__)
LANE = "fetch"
_METADATA, _CONNECT = "metadata", "connect"
_SESSION_ERRORS = (70, 71, 106)
_UNREAD = 1  # answers of a broker that may wait unread while the next is fetched
FAR = float("inf")
_LOOK_AGAIN = 5.0  # seconds after which plans are made anew, whether anything happened or not
_SILENCE = 30.0  # seconds without data, in spite of lag, that are worth a warning


class _Line:
    """The connection to one broker, its session, and the request under way."""

    __slots__ = ("connection", "endpoint", "sent_at", "session", "unread", "version")

    def __init__(self, endpoint: Endpoint, connection: Connection) -> None:
        self.endpoint = endpoint
        self.connection = connection
        self.session = FetchSession()
        self.sent_at = 0.0
        self.version = 0
        self.unread = 0


class _Waiting(NamedTuple):
    """Fetched data, and the line it came by."""

    data: Fetched
    line: _Line
    is_last: bool
    """Whether nothing of the same answer comes after it."""


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
        self.board: Board[_Line] = Board()
        self._options = options
        self._pool = pool
        self._metadata = metadata
        self._positions = positions
        self._recovery = recovery
        self._tasks = Tasks(self.board.wake)
        self._backoff = Backoff(options)
        self._outcomes = Outcomes(options, metadata, positions, self._backoff)
        self._lines: dict[int, _Line] = {}
        self._waiting: deque[_Waiting] = deque()
        self._request_seconds = options["request_timeout_ms"] / 1000
        self._answer_seconds = self._request_seconds + options["fetch_max_wait_ms"] / 1000
        self._planned: tuple[int, object] = (-1, None)
        self._plan_again = 0.0
        self._wanted: dict[int, tuple[Endpoint, dict[TopicPartition, PartitionState]]] = {}
        self._metadata_not_before = 0.0

    # --- for the consumer ---

    @property
    def has_records(self) -> bool:
        """Whether there is data that could be taken now."""
        self._skip_stale()
        return bool(self._waiting)

    def current(self) -> Fetched | None:
        """The data to read next; it is dropped once it is empty."""
        self._skip_stale()
        return self._waiting[0].data if self._waiting else None

    def step(self, until: float) -> None:
        """Send what can be sent, read what has come, wait for more ``until`` then at most."""
        now = time.monotonic()
        for key, result in self._tasks.collect():
            self._note_task(key, result)
        next_event = min(self._plan(now), self._recovery.step(self._tasks, now))
        next_event = min(next_event, self._send(now), self._check_timeouts(now))
        for line, can_read, can_write in self.board.wait(min(until, next_event)):
            self._serve(line, can_read, can_write)

    def pump(self) -> None:
        """Do without waiting what can be done: called while there is data to hand out."""
        self.step(0.0)

    def close(self) -> None:
        """Give the connections back."""
        for line in list(self._lines.values()):
            self._drop_line(line)
        self.board.close()

    def _skip_stale(self) -> None:
        """Drop data of partitions that were revoked, paused or moved, and what is read up."""
        while self._waiting:
            data = self._waiting[0].data
            is_ours = self._positions.states.get(data.state.tp) is data.state
            if is_ours and data.is_current:
                if not data.is_empty:
                    return
                if data.state.position < data.next_offset:
                    data.state.position = data.next_offset
                if data.error is not None:
                    data.state.error, data.error = data.error, None
                    return
            waiting = self._waiting.popleft()
            if waiting.is_last:
                waiting.line.unread -= 1

    # --- planning: which partitions are fetched from which broker ---

    def _plan(self, now: float) -> float:
        """Spread the partitions over brokers anew, if anything has changed."""
        key = (self._positions.version, self._metadata.view)
        if key[0] == self._planned[0] and key[1] is self._planned[1] and now < self._plan_again:
            return self._plan_again
        wanted: dict[int, tuple[Endpoint, dict[TopicPartition, PartitionState]]] = {}
        again, lacks_leader = now + _LOOK_AGAIN, False
        for state in self._positions:
            if state.phase is not Phase.FETCHING or state.is_paused or state.error is not None:
                continue
            if state.not_before > now:
                again = min(again, state.not_before)
                continue
            self._watch(state, now)
            source = self._source(state, now)
            if source is None:
                lacks_leader = lacks_leader or state.phase is Phase.FETCHING
            else:
                wanted.setdefault(source.node, (source, {}))[1][state.tp] = state
        self._wanted = wanted
        if lacks_leader or self._metadata.is_old:
            again = min(again, self._want_metadata(now))
        self._planned = (self._positions.version, self._metadata.view)
        self._plan_again = again
        for node, line in self._lines.items():
            mine = wanted[node][1] if node in wanted else {}
            line.session.drop([tp for tp in line.session.wants if tp not in mine])
            for state in mine.values():
                self._put(line, state)
        return again

    def _source(self, state: PartitionState, now: float) -> Endpoint | None:
        """The broker to fetch from: the leader, or the follower it named (KIP-392)."""
        view = self._metadata.view
        partition = view.partition(state.tp)
        if partition is None:
            return None
        if state.leader_epoch < partition.leader_epoch:
            line = self._lines.get(partition.leader_id)
            if self._recovery.note_leader(
                state, partition.leader_epoch, line.version if line else 0
            ):
                return None
        if state.preferred >= 0 and now < state.preferred_until:
            follower = view.brokers.get(state.preferred)
            if follower is not None:
                return follower
        return view.brokers.get(partition.leader_id)

    def _watch(self, state: PartitionState, now: float) -> None:
        """One warning, and a fresh session, when there is lag and nothing comes (KIP-227)."""
        if state.end <= state.position or not 0 < state.fetched_at < now - _SILENCE:
            return
        if any(waiting.data.state is state for waiting in self._waiting):
            state.fetched_at = now  # the user has not come for it
            return
        _log.warning(
            "%s[%d] has records up to %d, but none came for %d s at position %d (%s)",
            *state.tp,
            state.end,
            _SILENCE,
            state.position,
            state.reason or "asking for all partitions anew",
        )
        state.fetched_at = now
        for line in self._lines.values():
            line.session.restart()

    def _put(self, line: _Line, state: PartitionState) -> None:
        want = Want(
            state.fetch_offset, state.max_bytes, state.leader_epoch, state.fetch_epoch, state.token
        )
        line.session.put(state.tp, want)

    # --- sending ---

    def _send(self, now: float) -> float:
        next_event = FAR
        for node, (endpoint, _) in self._wanted.items():
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

    def _send_on(self, line: _Line, now: float) -> float:
        connection = line.connection
        if connection.in_flight or line.unread > _UNREAD or not line.session.wants:
            return FAR
        if connection.throttled_until > now:
            return connection.throttled_until
        if connection.login_due and now >= connection.login_due:
            self._release_line(line)
            return now
        line.version = version = connection.version_of(FetchRequest)
        topics = self._metadata.view.topics
        ids = {name: view.topic_id for name, view in topics.items()}
        ask = line.session.ask(has_sessions=version >= requests.SESSIONS)
        connection.post(requests.request(ask, version, ids, self._options), version=version)
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

    def _serve(self, line: _Line, can_read: bool, can_write: bool) -> None:
        try:
            if can_write:
                line.connection.push()
                self.board.update(line)
            if can_read and (answer := line.connection.poll()) is not None:
                self._read(line, answer)
        except KafkaError as error:
            self._lose_line(line, error)

    def _read(self, line: _Line, answer: Answer) -> None:
        response = cast(FetchResponse, line.connection.decode(answer))
        if response.error_code:
            if response.error_code not in _SESSION_ERRORS:
                _log.info("%s refused a fetch: error %d", line.endpoint, response.error_code)
            line.session.restart()
            return
        if line.version >= requests.SESSIONS:
            line.session.answered(response.session_id)
        names = self._metadata.view.names
        hints, places = requests.hints(response, line.version, names)
        if hints:
            self._metadata.apply_hints(hints, places)
        found = []
        for tp, data in requests.partitions(response, line.version, names):
            state, sent = self._positions.states.get(tp), line.session.sent.get(tp)
            if state is None or sent is None or sent.token != state.token or state.is_paused:
                continue
            fetched = self._outcomes.note(state, data, line.endpoint, line.version)
            if fetched is not None:
                found.append(fetched)
                self._put(line, state)
        self._waiting.extend(_Waiting(fetched, line, fetched is found[-1]) for fetched in found)
        line.unread += bool(found)
        # The next request leaves before anything of this answer is decoded.
        self._send_on(line, time.monotonic())

    def _lose_line(self, line: _Line, error: KafkaError) -> None:
        _log.info("lost the fetch connection to %s: %s", line.endpoint, error)
        self._drop_line(line)
        self._metadata.mark_stale()
        until = time.monotonic() + self._backoff.seconds(1)
        for tp in line.session.wants:
            state = self._positions.states.get(tp)
            if state is not None and state.phase is Phase.FETCHING:
                state.fail(str(error), until)
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

    def _note_task(self, key: Hashable, result: object) -> None:
        if key == _METADATA:
            wait = self._backoff.seconds(1)
            self._metadata_not_before = time.monotonic() + wait
            if isinstance(result, KafkaError):
                self._outcomes.note_unreachable(result)
            self._plan_again = 0.0
        elif isinstance(key, tuple) and key[0] == _CONNECT:
            self._note_connection(key[1], result)
        else:
            self._recovery.note_task(key, result)
            self._plan_again = 0.0

    def _note_connection(self, endpoint: Endpoint, result: object) -> None:
        if not isinstance(result, Connection):
            self._metadata.mark_stale()
            self._plan_again = 0.0
            if isinstance(result, KafkaError):
                self._outcomes.note_unreachable(result, endpoint.node)
            return
        line = self._lines[endpoint.node] = _Line(endpoint, result)
        self.board.add(line)
        for state in self._wanted.get(endpoint.node, (endpoint, {}))[1].values():
            self._put(line, state)

    def _want_metadata(self, now: float) -> float:
        if now < self._metadata_not_before:
            return self._metadata_not_before
        self._metadata.mark_stale()
        topics = {tp.topic for tp in self._positions.states}
        deadline = Deadline(self._request_seconds)
        self._tasks.start(_METADATA, lambda: self._metadata.refresh(deadline, topics))
        return FAR

    def _drop_line(self, line: _Line) -> None:
        line.connection.close()
        self._release_line(line)

    def _release_line(self, line: _Line) -> None:
        self.board.remove(line)
        del self._lines[line.endpoint.node]
        self._pool.release(line.connection, LANE)
