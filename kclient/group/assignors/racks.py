"""Which members are near which partitions (KIP-881), for the sticky assignors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kclient.group.assignors.interface import Members, PartitionInfo, racks_matter
from kclient.types import TopicPartition


class Racks:
    """Racks of members and partitions; empty where they make no difference."""

    def __init__(self, topics: Mapping[str, Sequence[PartitionInfo]], members: Members) -> None:
        racks = {member_id: each.rack for member_id, each in members.items() if each.rack}
        places = {
            TopicPartition(topic, info.partition): info.racks
            for topic, infos in topics.items()
            for info in infos
        }
        matter = racks_matter(set(racks.values()), list(places.values()))
        self.of_member: dict[str, str] = racks if matter else {}
        self._of_partition = places if matter else {}
        crowd = Counter(racks.values())
        self._neighbours = {
            tp: sum(crowd[rack] for rack in near) for tp, near in places.items() if racks
        }

    def mismatch(self, member_id: str, tp: TopicPartition) -> bool:
        """Whether the member has a rack, and it holds no replica."""
        rack = self.of_member.get(member_id)
        return rack is not None and rack not in self._of_partition.get(tp, ())

    def match(self, member_id: str, tp: TopicPartition) -> bool:
        """Whether the member has a rack that holds a replica."""
        return self.of_member.get(member_id) in self._of_partition.get(tp, ())

    def fewest_neighbours_first(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Sort by how many members are near, so that the hardest to place come first."""
        return sorted(partitions, key=lambda tp: self._neighbours.get(tp, 0))

    def next_match(self, tp: TopicPartition, members: Sequence[str], start: int) -> int:
        """The index of the next member near ``tp``, going round from ``start``; -1 if none."""
        for step in range(len(members)):
            index = (start + step) % len(members)
            if self.match(members[index], tp):
                return index
        return -1
