"""Members in turn, one partition each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from kclient.group.assignors.interface import (
    Assignment,
    Members,
    PartitionsByTopic,
    RebalanceProtocol,
    by_identity,
    subscribed_partitions,
)
from kclient.types import TopicPartition


class RoundRobinAssignor:
    """Deals all partitions of all topics out in turn, passing over who did not subscribe."""

    name = "roundrobin"
    protocols = (RebalanceProtocol.EAGER,)

    def user_data(self, previous: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """See `Assignor`."""
        return None

    def assign(self, partitions: PartitionsByTopic, members: Members) -> Assignment:
        """See `Assignor`."""
        assignment: Assignment = {member_id: [] for member_id in members}
        turns = cycle(by_identity(members))
        for topic, infos in sorted(subscribed_partitions(partitions, members).items()):
            for info in infos:
                taker = next(one for one in turns if topic in members[one].topics)
                assignment[taker].append(TopicPartition(topic, info.partition))
        return assignment
