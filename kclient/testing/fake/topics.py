"""Topics and partitions as the fake cluster's controller knows them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.log import PartitionLog

NO_LEADER = -1


class Partition:
    """A log, the brokers that hold it, and who leads it since which epoch."""

    def __init__(self, index: int, replicas: Sequence[int]) -> None:
        self.index = index
        self.replicas = list(replicas)
        self.leader = NO_LEADER
        self.leader_epoch = -1
        self.log = PartitionLog()

    def lead_by(self, node: int) -> None:
        """Make ``node`` the leader, in a new epoch; NO_LEADER for nobody."""
        self.leader = node
        self.leader_epoch += 1
        if node != NO_LEADER:
            self.log.begin_epoch(self.leader_epoch)

    def move_to(self, replicas: Sequence[int]) -> None:
        """Have other replicas, the first of which leads."""
        self.replicas = list(replicas)
        self.lead_by(self.replicas[0])

    def elect(self, alive: Collection[int]) -> None:
        """Keep the leader if it is alive, else take the first replica that is."""
        if self.leader in alive:
            return
        candidates = [node for node in self.replicas if node in alive]
        chosen = candidates[0] if candidates else NO_LEADER
        if chosen != self.leader or self.leader_epoch < 0:
            self.lead_by(chosen)

    def check_epoch(self, epoch: int) -> None:
        """Refuse a client whose metadata is older or newer than ours (KIP-320)."""
        if epoch >= 0 and epoch < self.leader_epoch:
            raise Refusal(Code.FENCED_LEADER_EPOCH)
        if epoch > self.leader_epoch:
            raise Refusal(Code.UNKNOWN_LEADER_EPOCH)


@dataclass
class Topic:
    """A topic; ``id`` differs from that of a deleted topic of the same name (KIP-516)."""

    name: str
    id: UUID
    partitions: list[Partition]
    configs: dict[str, str] = field(default_factory=dict)

    def add_partitions(self, count: int, nodes: Sequence[int], replication: int) -> None:
        """Grow by ``count`` partitions, their replicas in turn over ``nodes``."""
        for _ in range(count):
            index = len(self.partitions)
            replicas = [nodes[(index + step) % len(nodes)] for step in range(replication)]
            self.partitions.append(Partition(index, replicas))
