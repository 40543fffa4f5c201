"""A group of the classic protocol: its members agree in rounds, each a generation.

    EMPTY -> PREPARING -> COMPLETING -> STABLE
    PREPARING   waits for every member to join again, at most the longest rebalance timeout
    COMPLETING  waits for the leader to hand in the assignments
    any joiner, leaver or silent member takes the group back to PREPARING

Time passes by ``tick`` only, which every request calls: there is no thread behind it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

from kclient.testing.fake.codes import Code, Refusal


class GroupState(Enum):
    """As DescribeGroups names them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass
class Member:
    """Someone in the group; times in seconds. ``protocols`` are in the order of preference."""

    id: str
    instance_id: str | None
    client_id: str
    session_timeout: float
    rebalance_timeout: float
    protocols: dict[str, bytes]
    last_seen: float
    assignment: bytes = b""
    is_joining: bool = False

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place when it restarts (KIP-345)."""
        return self.instance_id is not None


@dataclass
class ClassicGroup:
    """Members, generation, and the state between them."""

    id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    expected: set[str] = field(default_factory=set)  # ids given out, not joined yet (KIP-394)
    _rebalance_end: float = 0.0

    @property
    def state_name(self) -> str:
        """As DescribeGroups calls it."""
        return self.state.value

    # --- joining ------------------------------------------------------------------------------

    def join(self, joiner: Member, protocol_type: str, now: float) -> Member:
        """Take a member in, or again; ``is_joining`` tells whether a new generation begins.

        Raises a Refusal for a fenced member. Its protocols have been checked.
        """
        self.protocol_type = protocol_type
        known = self.members.get(joiner.id)
        if known is not None:
            self.check_instance(known.id, joiner.instance_id)
            return self._rejoin(known, joiner, now)
        twin = self._static(joiner.instance_id)
        if twin is not None:
            return self._replace(twin, joiner, now)
        self.expected.discard(joiner.id)
        self.members[joiner.id] = joiner
        self._await_new_generation(joiner, now)
        return joiner

    def _rejoin(self, known: Member, joiner: Member, now: float) -> Member:
        is_same = known.protocols == joiner.protocols
        known.protocols = joiner.protocols
        known.session_timeout = joiner.session_timeout
        known.rebalance_timeout = joiner.rebalance_timeout
        known.last_seen = now
        # A member that repeats itself, because an answer was lost, disturbs nobody.
        is_repeat = is_same and (
            self.state is GroupState.COMPLETING
            or (self.state is GroupState.STABLE and known.id != self.leader)
        )
        if not is_repeat:
            self._await_new_generation(known, now)
        return known

    def _replace(self, twin: Member, joiner: Member, now: float) -> Member:
        """A static member is back under a new id: it takes its old place over."""
        place = {
            joiner.id if name == twin.id else name: joiner if name == twin.id else member
            for name, member in self.members.items()
        }
        self.members = place
        joiner.assignment = twin.assignment
        is_same = twin.protocols.get(self.protocol) == joiner.protocols.get(self.protocol)
        if self.leader == twin.id:
            self.leader = joiner.id
        if self.state is not GroupState.STABLE or not is_same:
            self._await_new_generation(joiner, now)
        return joiner

    def _await_new_generation(self, member: Member, now: float) -> None:
        member.is_joining = True
        self._prepare(now)
        self.tick(now)

    def check_protocols(self, joiner: Member, protocol_type: str) -> None:
        """Raise a Refusal for one who has no protocol in common with the others."""
        others = [member for member in self.members.values() if member.id != joiner.id]
        if not joiner.protocols:
            raise Refusal(Code.INCONSISTENT_GROUP_PROTOCOL)
        if not others:
            return
        common = set(joiner.protocols).intersection(*(other.protocols for other in others))
        if not common or protocol_type != self.protocol_type:
            raise Refusal(Code.INCONSISTENT_GROUP_PROTOCOL)

    # --- rebalancing --------------------------------------------------------------------------

    def _prepare(self, now: float) -> None:
        if self.state is not GroupState.PREPARING:
            self.state = GroupState.PREPARING
            timeouts = [member.rebalance_timeout for member in self.members.values()]
            self._rebalance_end = now + max(timeouts, default=0)

    def tick(self, now: float) -> bool:
        """Drop silent members, and begin the next generation if it is time for it."""
        before = (self.state, self.generation, len(self.members))
        silent = [
            member.id
            for member in self.members.values()
            if not member.is_joining and now - member.last_seen > member.session_timeout
        ]
        for member_id in silent:
            self._remove(member_id, now)
        if self.state is GroupState.PREPARING:
            self._complete_if_ready(now)
        return before != (self.state, self.generation, len(self.members))

    def _complete_if_ready(self, now: float) -> None:
        missing = [member for member in self.members.values() if not member.is_joining]
        if missing and now < self._rebalance_end:
            return
        for member in missing:
            if not member.is_static:
                del self.members[member.id]
        joined = [member for member in self.members.values() if member.is_joining]
        if self.members and not joined:
            return  # static members that are away keep their places until their sessions end
        self.generation += 1
        if not joined:
            self.state = GroupState.EMPTY
            self.leader = self.protocol = ""
            return
        if self.leader not in [member.id for member in joined]:
            self.leader = joined[0].id
        self.protocol = self._vote()
        self.state = GroupState.COMPLETING
        for member in joined:
            member.is_joining = False
            member.last_seen = now

    def _vote(self) -> str:
        """The protocol that all know, and most prefer."""
        members = list(self.members.values())
        common = set(members[0].protocols).intersection(*(m.protocols for m in members))
        votes = Counter(
            next(name for name in member.protocols if name in common) for member in members
        )
        return votes.most_common(1)[0][0]

    def next_deadline(self, now: float) -> float:
        """Seconds until ``tick`` may have something to do."""
        ends = [
            member.last_seen + member.session_timeout
            for member in self.members.values()
            if not member.is_joining
        ]
        if self.state is GroupState.PREPARING:
            ends.append(self._rebalance_end)
        # A little more, so that the moment has passed for sure when the waiter looks again.
        return max(min(ends, default=now + 1.0) - now, 0) + 0.005

    # --- members ------------------------------------------------------------------------------

    def assign(self, assignments: dict[str, bytes]) -> None:
        """The leader hands in what each member gets."""
        for member in self.members.values():
            member.assignment = assignments.get(member.id, b"")
        self.state = GroupState.STABLE

    def leave(self, member_id: str, instance_id: str | None, now: float) -> str:
        """Let a member go, by its id or its instance id; returns its id. Or a Refusal."""
        if instance_id is not None and not member_id:
            twin = self._static(instance_id)
            if twin is None:
                raise Refusal(Code.UNKNOWN_MEMBER_ID)
            member_id = twin.id
        if member_id in self.expected:
            self.expected.discard(member_id)
            return member_id
        self.check_instance(member_id, instance_id)
        if member_id not in self.members:
            raise Refusal(Code.UNKNOWN_MEMBER_ID)
        self._remove(member_id, now)
        self.tick(now)
        return member_id

    def _remove(self, member_id: str, now: float) -> None:
        del self.members[member_id]
        self._prepare(now)

    def member(
        self, member_id: str, instance_id: str | None, generation: int | None, now: float
    ) -> Member:
        """A member that shows signs of life. Raises a Refusal if it is not what it thinks."""
        self.check_instance(member_id, instance_id)
        if member_id not in self.members:
            raise Refusal(Code.UNKNOWN_MEMBER_ID)
        if generation is not None and generation != self.generation:
            raise Refusal(Code.ILLEGAL_GENERATION)
        member = self.members[member_id]
        member.last_seen = now
        return member

    def check_instance(self, member_id: str, instance_id: str | None) -> None:
        """Raise a Refusal for a static member whose place another has taken."""
        twin = self._static(instance_id)
        if twin is not None and twin.id != member_id:
            raise Refusal(Code.FENCED_INSTANCE_ID)

    def _static(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        for member in self.members.values():
            if member.instance_id == instance_id:
                return member
        return None

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, now: float
    ) -> None:
        """Raise a Refusal if offsets from this member cannot be taken.

        A negative generation is a consumer without a group: it may commit while nobody is in.
        """
        if generation < 0 and not self.members:
            return
        if generation >= 0 or member_id or instance_id:
            self.member(member_id, instance_id, generation, now)
            if self.state is GroupState.COMPLETING:
                raise Refusal(Code.REBALANCE_IN_PROGRESS)
            return
        raise Refusal(Code.UNKNOWN_MEMBER_ID)
