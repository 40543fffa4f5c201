"""Incremental fetches: what a broker remembers of a consumer's partitions (KIP-227)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from kclient.protocol.messages.fetch import FetchPartition, FetchRequest, PartitionData
from kclient.testing.fake.codes import Code, Refusal

_FINAL, _INITIAL = -1, 0
_LAST_EPOCH = 0x7FFFFFFF


class PartitionKey(NamedTuple):
    """How a fetch names a partition: by name before v13, by id since."""

    topic: str
    topic_id: UUID
    partition: int


class _Told(NamedTuple):
    high_watermark: int
    log_start_offset: int
    last_stable_offset: int


@dataclass
class FetchSession:
    """The partitions of one consumer, and what it was told about them last."""

    id: int
    next_epoch: int = 1
    uses_ids: bool = False
    partitions: dict[PartitionKey, FetchPartition] = field(default_factory=dict)
    told: dict[PartitionKey, _Told] = field(default_factory=dict)

    def update(self, request: FetchRequest) -> None:
        """Add, change and forget what an incremental fetch says."""
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                gone = PartitionKey(forgotten.topic, forgotten.topic_id, index)
                self.partitions.pop(gone, None)
                self.told.pop(gone, None)
        self.partitions.update(wanted(request))

    def is_news(self, key: PartitionKey, data: PartitionData) -> bool:
        """Whether an incremental answer has to mention the partition."""
        told = _Told(data.high_watermark, data.log_start_offset, data.last_stable_offset)
        has_news = bool(data.records) or data.error_code != 0
        has_news = has_news or data.preferred_read_replica != -1 or data.diverging_epoch.epoch >= 0
        if self.told.get(key) == told and not has_news:
            return False
        self.told[key] = told
        return True


class FetchSessions:
    """One broker's sessions; a broker that restarts has forgotten them."""

    def __init__(self) -> None:
        self._sessions: dict[int, FetchSession] = {}
        self._made = 0

    def open(self, request: FetchRequest, version: int) -> FetchSession | None:
        """The session that a fetch belongs to, brought up to date; None if it wants none.

        Raises a Refusal if the client's idea of its session is wrong.
        """
        if version < 7 or request.session_epoch == _FINAL:
            self._sessions.pop(request.session_id, None)
            return None
        uses_ids = version >= 13
        if request.session_epoch == _INITIAL:
            self._sessions.pop(request.session_id, None)
            self._made += 1
            session = FetchSession(self._made, uses_ids=uses_ids, partitions=wanted(request))
            self._sessions[session.id] = session
            return session
        return self._continue(request, uses_ids)

    def _continue(self, request: FetchRequest, uses_ids: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise Refusal(Code.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != session.next_epoch:
            raise Refusal(Code.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            raise Refusal(Code.FETCH_SESSION_TOPIC_ID_ERROR)
        session.update(request)
        session.next_epoch = session.next_epoch % _LAST_EPOCH + 1
        return session

    def clear(self) -> None:
        """Forget all sessions, as a full cache does in time."""
        self._sessions.clear()


def wanted(request: FetchRequest) -> dict[PartitionKey, FetchPartition]:
    """The partitions that a fetch names, in its order."""
    return {
        PartitionKey(topic.topic, topic.topic_id, partition.partition): partition
        for topic in request.topics
        for partition in topic.partitions
    }
