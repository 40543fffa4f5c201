"""Offsets that a group has committed, and those that wait for their transaction."""

from __future__ import annotations

from typing import NamedTuple

from kclient.testing.fake.codes import Code, Refusal
from kclient.types import TopicPartition


class Committed(NamedTuple):
    """An offset with what came along. The leader epoch is -1 if unknown."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class CommittedOffsets:
    """One group's offsets by partition."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, Committed] = {}
        self._pending: dict[int, dict[TopicPartition, Committed]] = {}  # by producer id

    def commit(self, tp: TopicPartition, offset: Committed) -> None:
        """Commit at once."""
        self.committed[tp] = offset

    def commit_later(self, producer_id: int, tp: TopicPartition, offset: Committed) -> None:
        """Commit when the producer's transaction is committed."""
        self._pending.setdefault(producer_id, {})[tp] = offset

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Take the producer's pending offsets, or throw them away."""
        pending = self._pending.pop(producer_id, {})
        if commit:
            self.committed.update(pending)

    def get(self, tp: TopicPartition, *, require_stable: bool = False) -> Committed | None:
        """What is committed; a Refusal if a transaction may still change it (KIP-447)."""
        if require_stable and any(tp in pending for pending in self._pending.values()):
            raise Refusal(Code.UNSTABLE_OFFSET_COMMIT)
        return self.committed.get(tp)
