"""A broker that is fetched from: its connection, its session, and how it fares."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kclient.fetch import requests
from kclient.fetch.fetched import Fetched
from kclient.fetch.positions import PartitionState, Positions
from kclient.fetch.session import FetchSession, Want
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.protocol.messages.fetch import FetchRequest
from kclient.protocol.wire import ZERO_UUID
from kclient.types import TopicPartition

_FIRST_TRY = 1


class Line:
    """The connection to one broker, its session, and the request under way."""

    def __init__(self, endpoint: Endpoint, connection: Connection) -> None:
        """Raises UnsupportedVersion if the broker has no Fetch that we speak."""
        self.endpoint = endpoint
        self.connection = connection
        self.session = FetchSession()
        self.names: dict[UUID, str] = {}
        """The topics asked for, by id."""
        self.sent_at = 0.0
        self.unread = 0
        """Answers whose data the user has not taken."""
        self.refusals = 0
        self.not_before = 0.0
        self._highest = connection.version_of(FetchRequest)
        self.version = self._highest

    def ask_for(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Ask for exactly these partitions from now on."""
        self.session.drop([tp for tp in self.session.wants if tp not in states])
        for state in states.values():
            self.put(state)
        # Topics have ids for the broker only if they have them for us (KIP-516).
        has_ids = all(state.topic_id not in (None, ZERO_UUID) for state in states.values())
        self.version = self._highest if has_ids else min(self._highest, requests.TOPIC_IDS - 1)

    def put(self, state: PartitionState) -> None:
        """Ask for a partition, or for more of it."""
        topic_id = state.topic_id or ZERO_UUID
        self.names[topic_id] = state.tp.topic
        want = Want(
            state.fetch_offset,
            state.max_bytes,
            state.leader_epoch,
            state.fetch_epoch,
            topic_id,
            state.token,
        )
        self.session.put(state.tp, want)

    def refuse(self, until: float, *, is_gone: bool) -> None:
        """The broker did not accept the session; the second time in a row, wait."""
        self.refusals += 1
        if self.refusals > _FIRST_TRY:
            self.not_before = until
        self.session.restart(is_gone=is_gone)

    def accept(self, session_id: int) -> None:
        """The broker answered."""
        self.refusals, self.not_before = 0, 0.0
        if self.version >= requests.SESSIONS:
            self.session.answered(session_id)


class _Entry(NamedTuple):
    """Fetched data, and the line it came by."""

    data: Fetched
    line: Line
    is_last: bool
    """Whether nothing of the same answer comes after it."""


class Waiting:
    """What was fetched and not taken, in the order it came."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self._entries: deque[_Entry] = deque()

    def add(self, line: Line, found: Sequence[Fetched]) -> None:
        """The data of one answer."""
        last = len(found) - 1
        self._entries.extend(_Entry(data, line, at == last) for at, data in enumerate(found))
        line.unread += bool(found)

    def front(self) -> Fetched | None:
        """The data to read next. What is read up, or nobody wants any more, is dropped."""
        while self._entries:
            data = self._entries[0].data
            if data.is_current:
                if not data.is_empty:
                    return data
                self._note_end(data)
            entry = self._entries.popleft()
            if entry.is_last:
                entry.line.unread -= 1
        return None

    def _note_end(self, data: Fetched) -> None:
        """Go on behind what was left out; damage there is for the user to see."""
        if data.state.position < data.next_offset:
            data.state.position, data.state.epoch = data.next_offset, data.last_epoch
        if data.error is not None:
            self._positions.refuse(data.state, data.error)

    def holds(self, state: PartitionState) -> bool:
        """Whether there is data of a partition."""
        return any(entry.data.state is state for entry in self._entries)
