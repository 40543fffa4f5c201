"""Sticky assignment when all members subscribed to the same topics: quick, and exact.

Every member ends with the least or the most that an even spread allows, which differ by one.
Members keep what they owned up to that; the rest is dealt out in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from kclient.group.assignors.interface import Assignment, PartitionInfo
from kclient.group.assignors.racks import Racks
from kclient.types import TopicPartition


class ConstrainedAssignment:
    """One run of the algorithm."""

    def __init__(
        self,
        topics: Mapping[str, Sequence[PartitionInfo]],
        owned: Mapping[str, Sequence[TopicPartition]],
        disputed: set[TopicPartition],
        racks: Racks,
    ) -> None:
        """``owned`` has all members; ``disputed`` is what several of them claim."""
        self._all = [
            TopicPartition(topic, info.partition)
            for topic, infos in sorted(topics.items())
            for info in infos
        ]
        self._owned = owned
        self._disputed = disputed
        self._racks = racks
        self._least, self._above_least = divmod(len(self._all), len(owned))
        self._most = self._least + (1 if self._above_least else 0)
        self._assignment: Assignment = {member_id: [] for member_id in owned}
        self._below: list[str] = []  # have less than the least
        self._at_least: deque[str] = deque()  # have the least, and may get one more
        self._given_up: dict[TopicPartition, str] = {}
        self.moving: dict[TopicPartition, str] = {}
        """The new owners of partitions that another member owned or claimed."""

    def build(self) -> Assignment:
        """Run it."""
        for member_id, owned in self._owned.items():
            self._keep(member_id, owned)
        self._below.sort()
        self._at_least = deque(sorted(self._at_least))
        kept = {tp for taken in self._assignment.values() for tp in taken}
        rest = [tp for tp in self._all if tp not in kept]
        rest = self._racks.fewest_neighbours_first(rest)
        if self._racks.of_member:
            rest = self._deal_within_racks(rest)
        self._deal(rest)
        return self._assignment

    def _keep(self, member_id: str, owned: Sequence[TopicPartition]) -> None:
        claimed = sorted(owned, key=lambda tp: (tp.partition, tp.topic))
        near = [tp for tp in claimed if not self._racks.mismatch(member_id, tp)]
        self._given_up.update(dict.fromkeys(set(claimed).difference(near), member_id))
        near = [tp for tp in near if tp not in self._disputed]
        if len(near) < self._least:
            self._assignment[member_id] = near
            self._below.append(member_id)
            return
        keeps = self._least
        if len(near) >= self._most and self._above_least:
            keeps = self._most
            self._above_least -= 1
            if not self._above_least:
                self._at_least.clear()
        elif self._above_least:
            self._at_least.append(member_id)
        self._assignment[member_id] = near[:keeps]
        self._given_up.update(dict.fromkeys(near[keeps:], member_id))

    def _deal_within_racks(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Deal out what a member in reach of its share is near to; answers what is left."""
        left, turn = [], 0
        for tp in partitions:
            index = self._racks.next_match(tp, self._below, turn)
            if index >= 0:
                turn = self._give_to_below(tp, index)
            elif not self._give_to_one_at_least(tp):
                left.append(tp)
        return left

    def _give_to_below(self, tp: TopicPartition, index: int) -> int:
        """Answers whose turn is next."""
        member_id = self._below[index]
        count = self._give(tp, member_id)
        if count < self._least:
            index += 1
        else:
            del self._below[index]
            if count < self._most:
                self._at_least.append(member_id)
        return index % len(self._below) if self._below else 0

    def _give_to_one_at_least(self, tp: TopicPartition) -> bool:
        # No more than an even spread allows, or there are too few for the members below.
        index = self._racks.next_match(tp, self._at_least, 0) if self._above_least else -1
        if index < 0:
            return False
        self._give(tp, self._at_least[index])
        self._above_least -= 1
        del self._at_least[index]
        return True

    def _deal(self, partitions: Sequence[TopicPartition]) -> None:
        turn = 0
        for tp in partitions:
            if not self._below:
                self._give(tp, self._at_least.popleft())
                continue
            turn %= len(self._below)
            member_id = self._below[turn]
            if self._give(tp, member_id) == self._least:
                del self._below[turn]
                self._at_least.append(member_id)
            else:
                turn += 1

    def _give(self, tp: TopicPartition, member_id: str) -> int:
        taken = self._assignment[member_id]
        taken.append(tp)
        if self._given_up.get(tp, member_id) != member_id or tp in self._disputed:
            self.moving[tp] = member_id
        return len(taken)
