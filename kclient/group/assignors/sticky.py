"""Even, and with as few moves as that allows: the sticky assignors (KIP-54, KIP-341, KIP-429)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kclient.errors import ProtocolError
from kclient.group.assignors.constrained import ConstrainedAssignment
from kclient.group.assignors.general import GeneralAssignment
from kclient.group.assignors.interface import (
    NO_GENERATION,
    Assignment,
    Members,
    MemberSubscription,
    PartitionInfo,
    PartitionsByTopic,
    RebalanceProtocol,
    subscribed_partitions,
)
from kclient.group.assignors.java_order import in_java_order
from kclient.group.assignors.metadata import partitions_by_topic
from kclient.group.assignors.racks import Racks
from kclient.protocol.wire import Message, Struct, array, i32, string
from kclient.types import TopicPartition


class PreviousTopic(Struct):
    """Partitions of a topic that a member had."""

    topic: str = string()
    partitions: list[int] = array(i32)


class StickyUserData(Message, versions=(0, 1)):
    """What a member tells the sticky assignor of its last assignment."""

    previous_assignment: list[PreviousTopic] = array(PreviousTopic)
    generation: int = i32(since=1, default=NO_GENERATION, ignorable=True)


class CooperativeUserData(Message, versions=(0, 0)):
    """What a member tells the cooperative one; newer members say it in their subscription."""

    generation: int = i32(default=NO_GENERATION)


class Claim(NamedTuple):
    """What a member says it owned, and when."""

    partitions: Sequence[TopicPartition]
    generation: int


class StickyAssignor:
    """Keeps partitions where they were, though members give them up before they join."""

    name = "sticky"
    protocols = (RebalanceProtocol.EAGER,)

    def user_data(self, previous: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """See `Assignor`."""
        if previous is None:
            return None
        topics = [
            PreviousTopic(topic=topic, partitions=numbers)
            for topic, numbers in partitions_by_topic(previous).items()
        ]
        return StickyUserData(previous_assignment=topics, generation=generation).encode(1)

    def assign(self, partitions: PartitionsByTopic, members: Members) -> Assignment:
        """See `Assignor`."""
        return _assign(partitions, members, _sticky_claim)[0]


class CooperativeStickyAssignor:
    """The same, while members go on reading what does not move.

    What moves is withheld from its new owner until the old one has given it up; the group
    then rebalances once more.
    """

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def user_data(self, previous: Sequence[TopicPartition] | None, generation: int) -> bytes | None:
        """See `Assignor`."""
        return CooperativeUserData(generation=generation).encode(0)

    def assign(self, partitions: PartitionsByTopic, members: Members) -> Assignment:
        """See `Assignor`."""
        assignment, moving = _assign(partitions, members, _cooperative_claim)
        if moving is None:
            moving = _changed_hands(assignment, members)
        return {
            member_id: [tp for tp in taken if moving.get(tp) != member_id]
            for member_id, taken in assignment.items()
        }


def _sticky_claim(member: MemberSubscription) -> Claim:
    for version in (1, 0):
        try:
            data, _ = StickyUserData.decode_at(member.user_data or b"", 0, version)
        except ProtocolError:
            continue
        topics = data.previous_assignment
        owned = [
            TopicPartition(each.topic, number) for each in topics for number in each.partitions
        ]
        return Claim(owned, data.generation)
    return Claim((), NO_GENERATION)


def _cooperative_claim(member: MemberSubscription) -> Claim:
    if member.generation != NO_GENERATION:
        return Claim(member.owned, member.generation)
    try:
        data, _ = CooperativeUserData.decode_at(member.user_data or b"", 0, 0)
    except ProtocolError:
        return Claim(member.owned, NO_GENERATION)
    return Claim(member.owned, data.generation)


def _assign(
    partitions: PartitionsByTopic, members: Members, claim: Callable[[MemberSubscription], Claim]
) -> tuple[Assignment, dict[TopicPartition, str] | None]:
    """The assignment, and the new owners of what moves where the algorithm knows them."""
    if not members:
        return {}, {}
    topics = subscribed_partitions(partitions, members)
    ordered = {member_id: members[member_id] for member_id in in_java_order(members)}
    claims = {member_id: claim(member) for member_id, member in ordered.items()}
    owned, disputed = _settle(topics, claims)
    racks = Racks(topics, ordered)
    if len({frozenset(member.topics) for member in ordered.values()}) == 1:
        constrained = ConstrainedAssignment(topics, owned, disputed, racks)
        return constrained.build(), constrained.moving
    former = _former_owners(claims)
    return GeneralAssignment(topics, ordered, owned, former, racks).build(), None


def _settle(
    topics: Mapping[str, Sequence[PartitionInfo]], claims: Mapping[str, Claim]
) -> tuple[dict[str, list[TopicPartition]], set[TopicPartition]]:
    """Who owned what, by the newest claim; and what members of one generation both claim."""
    existing = {
        TopicPartition(topic, each.partition) for topic, of in topics.items() for each in of
    }
    owned: dict[str, list[TopicPartition]] = {}
    owners: dict[TopicPartition, str] = {}
    disputed: set[TopicPartition] = set()
    for member_id, (partitions, generation) in claims.items():
        owned[member_id] = []
        for tp in partitions:
            if tp not in existing:
                continue
            other = owners.get(tp)
            rival = NO_GENERATION - 1 if other is None else claims[other].generation
            if generation < rival:
                continue
            if other is not None and tp in owned[other]:
                owned[other].remove(tp)
            if generation == rival:
                disputed.add(tp)
            else:
                owned[member_id].append(tp)
            owners[tp] = member_id
    return owned, disputed


def _former_owners(claims: Mapping[str, Claim]) -> dict[TopicPartition, str]:
    """The newest claim to each partition from before the latest generation."""
    latest = max(generation for _, generation in claims.values())
    former: dict[TopicPartition, tuple[int, str]] = {}
    for member_id, (partitions, generation) in claims.items():
        if generation < latest:
            for tp in partitions:
                if tp not in former or generation > former[tp][0]:
                    former[tp] = generation, member_id
    return {tp: member_id for tp, (_, member_id) in former.items()}


def _changed_hands(assignment: Assignment, members: Members) -> dict[TopicPartition, str]:
    """The new owners of partitions that another member says it owns."""
    given_up: set[TopicPartition] = set()
    added: dict[TopicPartition, str] = {}
    for member_id, taken in assignment.items():
        owned = set(members[member_id].owned)
        given_up |= owned.difference(taken)
        added |= dict.fromkeys(set(taken) - owned, member_id)
    return {tp: member_id for tp, member_id in added.items() if tp in given_up}
