"""What an assignor is given, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from kclient.types import TopicPartition

NO_GENERATION = -1

Assignment = dict[str, list[TopicPartition]]
"""The partitions of each member, by member id. Every member is there, if with none."""


class RebalanceProtocol(IntEnum):
    """What members do with their partitions while the group rebalances; the higher the better."""

    EAGER = 0
    """Give up all before joining."""
    COOPERATIVE = 1
    """Keep all, give up those that move, and join again for them to be handed on (KIP-429)."""


class PartitionInfo(NamedTuple):
    """A partition of a topic."""

    partition: int
    racks: frozenset[str] = frozenset()
    """Those of its replicas, in sync or not; replicas without a rack do not count."""


class MemberSubscription(NamedTuple):
    """What a member said when it joined."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()
    generation: int = NO_GENERATION
    """The generation in which it owned them."""
    rack: str | None = None
    user_data: bytes | None = None
    instance_id: str | None = None
    """Its name, if it is a static member (KIP-345)."""


PartitionsByTopic = Mapping[str, Sequence[PartitionInfo]]
"""The partitions of each topic, in any order."""
Members = Mapping[str, MemberSubscription]
"""By member id, in the order of the JoinGroup response."""


class Assignor(Protocol):
    """Spreads partitions over members. It has no state: all it may use is given."""

    @property
    def name(self) -> str:
        """What members call it to agree on it."""
        ...

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """The rebalance protocols under which it works."""
        ...

    def user_data(self, previous: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """What to tell the leader besides topics and owned partitions; None for nothing.

        ``previous`` is this member's last assignment, which under the eager protocol it no
        longer owns, and ``generation`` that of it; None and -1 before the first.
        """
        ...

    def assign(self, partitions: PartitionsByTopic, members: Members) -> Assignment:
        """Spread the partitions of the topics that members subscribed to.

        Never fails on what a member says of itself: what makes no sense is ignored.
        """
        ...


def subscribed_partitions(
    partitions: PartitionsByTopic, members: Members
) -> dict[str, list[PartitionInfo]]:
    """The existing partitions, in order, of all topics that someone subscribed to."""
    topics = {topic for member in members.values() for topic in member.topics}
    return {topic: sorted(partitions[topic]) for topic in topics if partitions.get(topic)}


def by_identity(members: Members) -> list[str]:
    """Member ids in a lasting order: static ones by their names, then the others by id."""

    def identity(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, instance_id or member_id

    return sorted(members, key=identity)


def racks_matter(member_racks: set[str], racks_by_partition: Sequence[frozenset[str]]) -> bool:
    """Whether a choice of members by rack can bring any partition closer (KIP-881)."""
    everywhere = frozenset().union(*racks_by_partition)
    if member_racks.isdisjoint(everywhere):
        return False
    return any(racks != everywhere for racks in racks_by_partition)
