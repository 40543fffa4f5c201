"""Sticky assignment when subscriptions differ: as even as they allow.

Members keep what they owned; what is free goes to whoever has least; then partitions move
from the heavily to the lightly loaded until no single move makes the spread more even.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence

from kclient.group.assignors.interface import Assignment, Members, PartitionInfo
from kclient.group.assignors.java_order import first_in_java, table_size
from kclient.group.assignors.racks import Racks
from kclient.types import TopicPartition


class GeneralAssignment:
    """One run of the algorithm."""

    def __init__(
        self,
        topics: Mapping[str, Sequence[PartitionInfo]],
        members: Members,
        owned: Mapping[str, Sequence[TopicPartition]],
        former: Mapping[TopicPartition, str],
        racks: Racks,
    ) -> None:
        """``owned`` has all members; ``former`` has owners of before the last generation."""
        self._topics = topics
        self._racks = racks
        self._former = former
        self._wanted = {one: set(topics).intersection(members[one].topics) for one in members}
        self._takers = {
            topic: [one for one in members if topic in self._wanted[one]] for topic in topics
        }
        self._all = [
            TopicPartition(topic, info.partition)
            for topic in sorted(topics, key=lambda topic: (len(self._takers[topic]), topic))
            for info in topics[topic]
        ]
        self._current: Assignment = {
            one: [tp for tp in owned[one] if self._may_keep(one, tp)] for one in members
        }
        self._must_give_up = any(len(self._current[one]) < len(owned[one]) for one in members)
        self._owner = {tp: one for one, taken in self._current.items() for tp in taken}
        self._loads = sorted((len(taken), one) for one, taken in self._current.items())
        self._moves = Moves()

    def build(self) -> Assignment:
        """Run it."""
        fresh = self._loads[-1][0] == 0
        free = [tp for tp in self._all if tp not in self._owner]
        self._give_out(free)
        settled = self._set_aside_settled()
        before = {one: list(taken) for one, taken in self._current.items()}
        if not self._must_give_up:
            # Moving only what was free may be enough, and disturbs nobody.
            self._even_out([tp for tp in free if self._contested(tp.topic)])
        moved = self._even_out([tp for tp in self._all if self._contested(tp.topic)])
        if moved and not fresh and _unevenness(self._current) >= _unevenness(before):
            self._current = before
        return self._current | settled

    def _may_keep(self, member_id: str, tp: TopicPartition) -> bool:
        return tp.topic in self._wanted[member_id] and not self._racks.mismatch(member_id, tp)

    def _contested(self, topic: str) -> bool:
        return len(self._takers[topic]) >= 2

    # --- giving out ---------------------------------------------------------------------

    def _give_out(self, free: Sequence[TopicPartition]) -> None:
        if self._racks.of_member:
            free = [tp for tp in free if not self._give(tp, near=True)]
        for tp in free:
            self._give(tp, near=False)

    def _give(self, tp: TopicPartition, *, near: bool) -> bool:
        """To the member with least that may have it."""
        for load in self._loads:
            member_id = load[1]
            if tp.topic in self._wanted[member_id] and not (
                near and self._racks.mismatch(member_id, tp)
            ):
                self._loads.remove(load)
                self._take(tp, member_id)
                return True
        return False

    def _take(self, tp: TopicPartition, member_id: str) -> None:
        taken = self._current[member_id]
        taken.append(tp)
        self._owner[tp] = member_id
        insort(self._loads, (len(taken), member_id))

    # --- evening out --------------------------------------------------------------------

    def _set_aside_settled(self) -> Assignment:
        """Take out the members that can neither get nor lose anything; answers what they have."""
        settled = [one for one in self._current if self._is_settled(one)]
        for one in settled:
            self._loads.remove((len(self._current[one]), one))
        return {one: self._current.pop(one) for one in settled}

    def _is_settled(self, member_id: str) -> bool:
        possible = sum(len(self._topics[topic]) for topic in self._wanted[member_id])
        taken = self._current[member_id]
        return len(taken) >= possible and not any(self._contested(tp.topic) for tp in taken)

    def _even_out(self, partitions: Sequence[TopicPartition]) -> bool:
        """Move partitions until it is even, or a round moved none; True if any was moved."""
        moved_any = False
        # Every move should help, so that rounds come to an end; a leader must not rely on it.
        for _ in range(len(self._all) + 1):
            moved = False
            for tp in partitions:
                if self._is_even():
                    break
                if taker := self._better_owner(tp):
                    self._move(tp, taker)
                    moved = moved_any = True
            if not moved:
                break
        return moved_any

    def _is_even(self) -> bool:
        """Whether no single move would help."""
        if not self._loads or self._loads[0][0] >= self._loads[-1][0] - 1:
            return True
        peaks: dict[str, int] = {}
        for taken in self._current.values():
            for topic in {tp.topic for tp in taken}:
                peaks[topic] = max(peaks.get(topic, 0), len(taken))
        return not any(
            count + 1 < peaks.get(topic, 0)
            for count, member_id in self._loads
            for topic in self._wanted[member_id]
        )

    def _better_owner(self, tp: TopicPartition) -> str | None:
        limit = len(self._current[self._owner[tp]]) - 1
        former = self._former.get(tp, "")
        if tp.topic in self._wanted.get(former, ()) and len(self._current[former]) < limit:
            return former
        lightest = next(load for load in self._loads if tp.topic in self._wanted[load[1]])
        return lightest[1] if lightest[0] < limit else None

    def _move(self, tp: TopicPartition, taker: str) -> None:
        tp = self._moves.undo_or(tp, self._owner[tp], taker)
        giver = self._owner[tp]
        self._moves.note(tp, giver, taker)
        given = self._current[giver]
        self._loads.remove((len(given), giver))
        self._loads.remove((len(self._current[taker]), taker))
        given.remove(tp)
        insort(self._loads, (len(given), giver))
        self._take(tp, taker)


class Moves:
    """Who got what from whom, so that two members never swap partitions of a topic."""

    def __init__(self) -> None:
        self._of_partition: dict[TopicPartition, tuple[str, str]] = {}
        self._by_pair: dict[tuple[str, str, str], dict[TopicPartition, None]] = {}

    def undo_or(self, tp: TopicPartition, giver: str, taker: str) -> TopicPartition:
        """A partition of the topic that came from ``taker``, to give back; else ``tp``."""
        if tp in self._of_partition:
            giver = self._of_partition[tp][0]
        came = self._by_pair.get((tp.topic, taker, giver))
        return first_in_java(came, table_size(len(came))) if came else tp

    def note(self, tp: TopicPartition, giver: str, taker: str) -> None:
        """Remember a move, together with an earlier one of the same partition."""
        if tp in self._of_partition:
            first, last = self._of_partition.pop(tp)
            del self._by_pair[tp.topic, first, last][tp]
            giver = first
        if giver != taker:
            self._of_partition[tp] = giver, taker
            self._by_pair.setdefault((tp.topic, giver, taker), {})[tp] = None


def _unevenness(assignment: Assignment) -> int:
    """The differences of all pairs of members, summed up."""
    sizes = [len(taken) for taken in assignment.values()]
    return sum(abs(size - other) for n, size in enumerate(sizes) for other in sizes[:n])
