"""Incremental fetch sessions (KIP-227): only what changed is asked for again; no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from kclient.protocol.wire import ZERO_UUID
from kclient.types import TopicPartition

_LAST_EPOCH = (1 << 31) - 1
FULL_EPOCH, NO_SESSION = 0, -1


class Want(NamedTuple):
    """What is asked of one partition."""

    offset: int
    max_bytes: int
    leader_epoch: int
    last_epoch: int
    topic_id: UUID = ZERO_UUID
    token: int = 0
    """Not for the broker: tells data that was asked for before a change of course."""


class Ask(NamedTuple):
    """What goes into one request."""

    session_id: int
    session_epoch: int
    wants: dict[TopicPartition, Want]
    forget: dict[TopicPartition, Want]


class FetchSession:
    """What one broker has been told to fetch for us, and what changed since.

    The cost of a request grows with the changes, not with the partitions.
    """

    def __init__(self) -> None:
        self.wants: dict[TopicPartition, Want] = {}
        self.sent: dict[TopicPartition, Want] = {}
        """What the broker was asked for last."""
        self._changed: dict[TopicPartition, None] = {}
        self._forgotten: dict[TopicPartition, Want] = {}
        self._id = 0
        self._epoch = FULL_EPOCH
        self._is_stale = False

    def put(self, tp: TopicPartition, want: Want) -> None:
        """Ask for a partition from now on, or for more of it."""
        known = self.wants.get(tp)
        if known == want:
            return
        if known is not None and known.topic_id != want.topic_id:
            self._is_stale = True  # the broker would go on about the topic that is gone
        self.wants[tp] = want
        self._changed[tp] = None
        self._forgotten.pop(tp, None)

    def drop(self, tps: Iterable[TopicPartition]) -> None:
        """Ask for partitions no more."""
        for tp in tps:
            want = self.wants.pop(tp, None)
            if want is not None:
                self._changed.pop(tp, None)
                self._forgotten[tp] = want

    def ask(self, *, has_sessions: bool) -> Ask:
        """The next request; without sessions (before 1.1) it names everything, always."""
        if not has_sessions:
            ask = Ask(0, NO_SESSION, dict(self.wants), {})
        elif self._epoch == FULL_EPOCH or self._is_stale:
            # With the id of a session, this also ends it.
            ask = Ask(self._id, FULL_EPOCH, dict(self.wants), {})
            self._epoch, self._is_stale = FULL_EPOCH, False
        else:
            changed = {tp: self.wants[tp] for tp in self._changed}
            ask = Ask(self._id, self._epoch, changed, dict(self._forgotten))
        for tp in self._forgotten:
            self.sent.pop(tp, None)
        self.sent.update(ask.wants)
        self._changed.clear()
        self._forgotten.clear()
        return ask

    def answered(self, session_id: int) -> None:
        """The request was answered well; the broker may have given us no session (id 0)."""
        if session_id == 0 or session_id != self._id:
            self._id = session_id
            self._epoch = 1 if session_id else FULL_EPOCH
        else:
            self._epoch = 1 if self._epoch >= _LAST_EPOCH else self._epoch + 1

    def restart(self, *, is_gone: bool = False) -> None:
        """Name everything in the next request: the session is not what both sides think.

        ``is_gone`` says that the broker does not know it any more.
        """
        self._is_stale = True
        if is_gone:
            self._id = 0
