"""A group of the consumer protocol (KIP-848): the broker assigns, members follow by heartbeats.

Each change of members or subscriptions makes a new group epoch with a target for everyone.
A member reaches the target in two steps, each told in the answer to a heartbeat: it first
gives up what it must, and says so; then it gets its new epoch and what others have freed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kclient.testing.fake.codes import Code, Refusal
from kclient.types import TopicPartition

ASSIGNORS = ("uniform", "range")
JOINING, LEAVING, LEAVING_FOR_A_WHILE = 0, -1, -2
_Partitions = frozenset[TopicPartition]
_NONE: _Partitions = frozenset()


@dataclass
class ConsumerMember:
    """Someone in the group; times in seconds. ``assigned`` is what it may own."""

    id: str
    instance_id: str | None
    client_id: str
    last_seen: float
    rack: str | None = None
    topics: frozenset[str] = frozenset()
    pattern: str | None = None
    epoch: int = 0
    previous_epoch: int = -1
    assigned: _Partitions = _NONE
    revoking: _Partitions = _NONE  # to be given up, and not said to be so yet
    told: _Partitions | None = None
    rebalance_timeout: float = 45.0
    revoking_since: float | None = None
    is_away: bool = False

    def subscribes(self, topic: str) -> bool:
        """Whether a topic is one of its own, by name or by pattern."""
        by_pattern = self.pattern is not None and re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics or by_pattern


@dataclass(frozen=True)
class Heartbeat:
    """What a member says of itself; None is "as before"."""

    member_id: str
    epoch: int
    instance_id: str | None
    client_id: str
    rack: str | None
    rebalance_timeout: float | None
    topics: Sequence[str] | None
    pattern: str | None
    assignor: str | None
    owned: Iterable[TopicPartition] | None


@dataclass
class ConsumerGroup:
    """Members, group epoch and target; ``session_timeout`` is in seconds."""

    id: str
    session_timeout: float
    epoch: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    target: dict[str, _Partitions] = field(default_factory=dict)
    _topics: dict[str, int] = field(default_factory=dict)  # subscribed ones: their partitions
    _subscriptions: frozenset[object] = frozenset()

    protocol_type = "consumer"

    @property
    def state_name(self) -> str:
        """As ConsumerGroupDescribe calls it."""
        if not self.members:
            return "Empty"
        behind = any(
            m.epoch != self.epoch or m.assigned != self.target.get(m.id, _NONE)
            for m in self.members.values()
        )
        return "Reconciling" if behind else "Stable"

    def heartbeat(
        self, said: Heartbeat, topics: Mapping[str, int], now: float
    ) -> ConsumerMember | None:
        """Take a heartbeat in; the member as it is then, None if it left. Or a Refusal.

        ``topics`` maps the cluster's topics to their numbers of partitions.
        """
        if said.assignor is not None and said.assignor not in ASSIGNORS:
            raise Refusal(Code.UNSUPPORTED_ASSIGNOR)
        if said.epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            self._leave(said, now)
            return None
        member = self._join(said, now) if said.epoch == JOINING else self._known(said)
        member.last_seen = now
        member.is_away = False
        if said.rebalance_timeout is not None:
            member.rebalance_timeout = said.rebalance_timeout
        _subscribe(member, said)
        self._retarget(topics)
        self._reconcile(member, said, now)
        return member

    # --- members ------------------------------------------------------------------------------

    def _join(self, said: Heartbeat, now: float) -> ConsumerMember:
        twin = self._static(said.instance_id)
        if twin is not None and twin.id != said.member_id:
            if not twin.is_away:
                raise Refusal(Code.UNRELEASED_INSTANCE_ID)
            return self._replace(twin, said.member_id)
        member = self.members.get(said.member_id)
        if member is None:
            member = ConsumerMember(said.member_id, said.instance_id, said.client_id, now)
            self.members[member.id] = member
        else:  # it lost its state, and begins again
            member.assigned = member.revoking = _NONE
            member.epoch = 0
        member.told = None
        return member

    def _replace(self, twin: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member is back under a new id: it takes its old place over."""
        del self.members[twin.id]
        self.target[member_id] = self.target.pop(twin.id, _NONE)
        twin.id = member_id
        twin.told = None
        self.members[member_id] = twin
        return twin

    def _known(self, said: Heartbeat) -> ConsumerMember:
        twin = self._static(said.instance_id)
        if twin is not None and twin.id != said.member_id:
            raise Refusal(Code.FENCED_INSTANCE_ID)
        member = self.members.get(said.member_id)
        if member is None:
            raise Refusal(Code.UNKNOWN_MEMBER_ID)
        if said.epoch == member.epoch:
            return member
        # The answer with its new epoch may have been lost: then it still owns no more than before.
        is_late = said.epoch == member.previous_epoch
        if is_late and said.owned is not None and set(said.owned) <= member.assigned:
            member.told = None
            return member
        raise Refusal(Code.FENCED_MEMBER_EPOCH)

    def _static(self, instance_id: str | None) -> ConsumerMember | None:
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    def _leave(self, said: Heartbeat, now: float) -> None:
        member = self.members.get(said.member_id)
        if member is None:
            raise Refusal(Code.UNKNOWN_MEMBER_ID)
        if said.epoch == LEAVING_FOR_A_WHILE and member.instance_id is not None:
            member.is_away = True
            member.last_seen = now
            return
        del self.members[member.id]

    def tick(self, now: float) -> bool:
        """Drop members that are silent, or do not give up partitions in time."""
        gone = [
            member.id
            for member in self.members.values()
            if now - member.last_seen > self.session_timeout
            or (
                member.revoking_since is not None
                and now - member.revoking_since > member.rebalance_timeout
            )
        ]
        for member_id in gone:
            del self.members[member_id]
        return bool(gone)

    # --- assignment ---------------------------------------------------------------------------

    def _retarget(self, topics: Mapping[str, int]) -> None:
        """Begin a new group epoch if members, subscriptions or their topics have changed."""
        members = self.members.values()
        subscriptions = frozenset((m.instance_id or m.id, m.topics, m.pattern) for m in members)
        subscribed = {
            name: count
            for name, count in topics.items()
            if any(member.subscribes(name) for member in members)
        }
        if (subscriptions, subscribed) == (self._subscriptions, self._topics):
            return
        self._subscriptions, self._topics = subscriptions, subscribed
        self.epoch += 1
        self.target = spread(members, self.target, subscribed)

    def _reconcile(self, member: ConsumerMember, said: Heartbeat, now: float) -> None:
        """Bring a member one step nearer to its target."""
        if member.revoking:
            if said.owned is None or member.revoking & set(said.owned):
                return
            member.revoking, member.revoking_since = _NONE, None
        target = self.target.get(member.id, _NONE)
        member.revoking = member.assigned - target
        member.assigned &= target
        if member.revoking:
            member.revoking_since = now
            return
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch
        others = [m.assigned | m.revoking for m in self.members.values() if m is not member]
        member.assigned = target.difference(*others)

    def news_for(self, member: ConsumerMember) -> _Partitions | None:
        """The assignment to tell a member, None if it knows."""
        if member.told == member.assigned:
            return None
        member.told = member.assigned
        return member.assigned

    def check_commit(self, member_id: str, instance_id: str | None, epoch: int, now: float) -> None:
        """Raise a Refusal if offsets of this member cannot be taken or told."""
        if epoch < 0 and not self.members:
            return
        member = self.members.get(member_id)
        if member is None:
            raise Refusal(Code.UNKNOWN_MEMBER_ID)
        if epoch != member.epoch:
            raise Refusal(Code.STALE_MEMBER_EPOCH)


def spread(
    members: Iterable[ConsumerMember],
    before: Mapping[str, _Partitions],
    topics: Mapping[str, int],
) -> dict[str, _Partitions]:
    """Every partition to a subscriber that has few, and to its old owner where that is fair."""
    ordered = sorted(members, key=lambda member: member.id)
    given: dict[str, set[TopicPartition]] = {member.id: set() for member in ordered}
    homeless: list[TopicPartition] = []
    everything = [TopicPartition(name, n) for name in sorted(topics) for n in range(topics[name])]
    wanted = [tp for tp in everything if any(m.subscribes(tp.topic) for m in ordered)]
    fair, extra = divmod(len(wanted), len(ordered)) if ordered else (0, 0)
    for tp in wanted:
        owner = next((m for m in ordered if tp in before.get(m.id, _NONE)), None)
        if owner is None or not owner.subscribes(tp.topic):
            homeless.append(tp)
        elif len(given[owner.id]) < fair:
            given[owner.id].add(tp)
        elif len(given[owner.id]) == fair and extra:
            given[owner.id].add(tp)
            extra -= 1
        else:
            homeless.append(tp)
    for tp in homeless:
        able = [member.id for member in ordered if member.subscribes(tp.topic)]
        given[min(able, key=lambda member_id: len(given[member_id]))].add(tp)
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


def _subscribe(member: ConsumerMember, said: Heartbeat) -> None:
    if said.pattern is not None:
        _check_pattern(said.pattern)
        member.pattern = said.pattern or None
    if said.topics is not None:
        member.topics = frozenset(said.topics)
    member.rack = said.rack or member.rack


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error:
        raise Refusal(Code.INVALID_REGULAR_EXPRESSION) from None
