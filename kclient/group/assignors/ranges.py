"""Each topic's partitions in ranges, one to a member."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from kclient.group.assignors.interface import (
    Assignment,
    Members,
    PartitionInfo,
    PartitionsByTopic,
    RebalanceProtocol,
    by_identity,
    racks_matter,
    subscribed_partitions,
)
from kclient.types import TopicPartition


class RangeAssignor:
    """Cuts each topic into ranges, so that topics of equal size are cut alike.

    Where racks make a difference (KIP-881) each member first gets, within its share, what
    has a replica in its rack; topics of equal size and members still move in step.
    """

    name = "range"
    protocols = (RebalanceProtocol.EAGER,)

    def user_data(self, previous: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """See `Assignor`."""
        return None

    def assign(self, partitions: PartitionsByTopic, members: Members) -> Assignment:
        """See `Assignor`."""
        topics = [
            _Topic(topic, infos, members)
            for topic, infos in subscribed_partitions(partitions, members).items()
        ]
        if any(topic.racks_matter for topic in topics):
            _assign_within_racks(topics)
        for topic in topics:
            topic.assign_ranges(lambda member_id, info: True)
        assignment: Assignment = {member_id: [] for member_id in members}
        for topic in topics:
            for member_id, taken in topic.taken.items():
                assignment[member_id] += (TopicPartition(topic.name, each) for each in taken)
        return {member_id: sorted(taken) for member_id, taken in assignment.items()}


class _Topic:
    """How far the partitions of one topic are spread."""

    def __init__(self, name: str, infos: Sequence[PartitionInfo], members: Members) -> None:
        takers = {one: each for one, each in members.items() if name in each.topics}
        self.name = name
        self.racks = {one: takers[one].rack or None for one in by_identity(takers)}
        self.taken: dict[str, list[int]] = {one: [] for one in self.racks}
        self.infos = infos
        self._left = list(infos)
        self._share, self._extra = divmod(len(infos), len(takers))
        racks = {rack for rack in self.racks.values() if rack}
        self.racks_matter = racks_matter(racks, [info.racks for info in infos])

    def matches(self, member_id: str, info: PartitionInfo) -> bool:
        """Whether the member's rack, if it has one, holds a replica."""
        rack = self.racks[member_id]
        return rack is None or rack in info.racks

    def room(self, member_id: str) -> int:
        """How many more partitions the member may take."""
        share = self._share + (1 if self._extra > 0 else 0)
        return max(0, share - len(self.taken[member_id]))

    def take(self, member_id: str, infos: Sequence[PartitionInfo]) -> None:
        """Give the member some of what is left."""
        taken = self.taken[member_id]
        taken += (info.partition for info in infos)
        if len(taken) > self._share:
            self._extra -= 1
        self._left = [info for info in self._left if info not in infos]

    def assign_ranges(self, may_take: Callable[[str, PartitionInfo], bool]) -> None:
        """Give each member in turn what is left, as far as its share and ``may_take`` allow."""
        for member_id in self.racks:
            fitting = [info for info in self._left if may_take(member_id, info)]
            if chosen := fitting[: self.room(member_id)]:
                self.take(member_id, chosen)


def _assign_within_racks(topics: Sequence[_Topic]) -> None:
    alike: defaultdict[tuple[frozenset[str], int], list[_Topic]] = defaultdict(list)
    for topic in topics:
        if any(topic.racks.values()):
            alike[frozenset(topic.racks), len(topic.infos)].append(topic)
    for group in alike.values():
        if len(group) > 1:
            _assign_in_step(group)
        elif group[0].racks_matter:
            group[0].assign_ranges(group[0].matches)


def _assign_in_step(topics: Sequence[_Topic]) -> None:
    """Give the same partition of all topics to one member, whose rack has replicas of each."""
    members = list(topics[0].racks)
    for infos in zip(*(topic.infos for topic in topics), strict=True):
        rows = list(zip(topics, infos, strict=True))
        for member_id in members:
            if all(
                topic.matches(member_id, info) and topic.room(member_id) for topic, info in rows
            ):
                for topic, info in rows:
                    topic.take(member_id, [info])
                break
