"""Any order of events, sensible or not, keeps a membership's promises."""

from __future__ import annotations

import random

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kclient.group.actions import (
    Assign,
    Beat,
    Fail,
    FindCoordinator,
    Identity,
    Join,
    Leave,
    Lose,
    Ready,
    Revoke,
    Spread,
    Sync,
    Wait,
)
from kclient.group.assignors import PartitionInfo, choose_assignors
from kclient.group.assignors.metadata import encode_assignment
from kclient.group.membership import Membership
from kclient.group.requests import GroupSettings
from kclient.group.states import TABLE, Event, State
from kclient.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kclient.protocol.messages.sync_group import SyncGroupResponse
from kclient.types import TopicPartition

CODES = st.sampled_from([-1, 7, 14, 15, 16, 22, 23, 24, 25, 26, 27, 30, 81, 82, 999])
SHARES = st.sets(st.builds(TopicPartition, st.sampled_from("tu"), st.integers(0, 3)))


class AnyOrder(RuleBasedStateMachine):
    """The user's side is modelled: ``reads`` is what calls have told it to read."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.reads: set[TopicPartition] = set()
        self.expelled = False
        self.generations = 0

    @initialize(
        cooperative=st.booleans(), instance_id=st.sampled_from([None, "static"]), seed=st.integers()
    )
    def start(self, cooperative: bool, instance_id: str | None, seed: int) -> None:
        names = ["cooperative-sticky"] if cooperative else ["range", "cooperative-sticky"]
        settings = GroupSettings("g", choose_assignors(names), group_instance_id=instance_id)
        self.is_eager = not cooperative
        self.member = Membership(settings, random.Random(seed))

    # --- the user and time --------------------------------------------------------------

    @rule(topics=st.sets(st.sampled_from("tu")))
    def subscribe(self, topics: set[str]) -> None:
        self.member.subscribe(topics, self.now)

    @rule()
    def unsubscribe(self) -> None:
        self.member.unsubscribe()

    @rule()
    def poll(self) -> None:
        self.member.polled(self.now)

    @rule(seconds=st.sampled_from([0.01, 1.0, 50.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def metadata_changed(self) -> None:
        self.member.rejoin("the topics changed")

    # --- answers, as good as they can be -------------------------------------------------

    @rule(steps=st.integers(1, 8), share=SHARES, leads=st.booleans())
    def go_well(self, steps: int, share: set[TopicPartition], leads: bool) -> None:
        """Do what is asked for a while, and have it succeed."""
        for _ in range(steps):
            self.step_well(share, leads)

    def step_well(self, share: set[TopicPartition], leads: bool) -> None:
        action = self.member.next(self.now)
        if isinstance(action, FindCoordinator):
            self.member.found(1)
        elif isinstance(action, Join):
            self.join_well(action, leads)
        elif isinstance(action, Spread):
            self.member.spread({topic: [PartitionInfo(0)] for topic in action.topics})
        elif isinstance(action, Sync):
            assert action.request.encode(5)
            answer = SyncGroupResponse(assignment=encode_assignment(sorted(share)))
            self.member.synced(answer, self.now)
        elif isinstance(action, Leave):
            assert action.request(5).encode(5)
            self.member.left()
        elif isinstance(action, Revoke | Lose | Assign | Fail):
            self.call(action)
        elif isinstance(action, Wait):
            self.now = min(action.until, self.now + 60)

    def join_well(self, action: Join, leads: bool) -> None:
        assert action.request.encode(9)
        if self.is_eager:
            assert not self.reads, "joined with partitions that an eager member must not have"
        self.generations += 1
        me = action.request.member_id or f"member-{self.generations}"
        metadata = action.request.protocols[0].metadata
        self.member.joined(
            JoinGroupResponse(
                generation_id=self.generations,
                protocol_name=action.request.protocols[0].name,
                leader=me if leads else "other",
                member_id=me,
                members=[JoinGroupResponseMember(member_id=me, metadata=metadata)] if leads else [],
            ),
            self.now,
        )
        self.expelled = False

    def call(self, action: Revoke | Lose | Assign | Fail) -> None:
        if isinstance(action, Assign):
            assert self.reads.isdisjoint(action.partitions)
            self.reads |= set(action.partitions)
        elif not isinstance(action, Fail):
            assert isinstance(action, Revoke) or self.expelled
            assert action.partitions
            assert set(action.partitions) <= self.reads
            self.reads -= set(action.partitions)
        self.member.done(action)

    # --- answers of all kinds, also when nobody asked --------------------------------------

    @rule(code=CODES)
    def join_badly(self, code: int) -> None:
        before = self.member.state
        self.member.joined(JoinGroupResponse(error_code=code), self.now)
        if before not in (State.OUTSIDE, State.MUST_JOIN):
            assert self.member.state is before
        self.note(code)

    @rule(member_id=st.sampled_from("ab"))
    def be_named(self, member_id: str) -> None:
        self.member.joined(JoinGroupResponse(error_code=79, member_id=member_id), self.now)

    @rule(code=CODES)
    def sync_badly(self, code: int) -> None:
        self.member.synced(SyncGroupResponse(error_code=code), self.now)
        self.note(code)

    @rule(data=st.binary(max_size=8))
    def sync_nonsense(self, data: bytes) -> None:
        self.member.synced(SyncGroupResponse(assignment=data), self.now)

    @rule(code=CODES | st.just(0), stale=st.booleans())
    def answer(self, code: int, stale: bool) -> None:
        identity = self.member.identity
        inside = identity.generation != -1
        before = self.member.state, self.member.next(self.now)
        self.member.answered(Identity("who", 0) if stale else identity, code, self.now)
        if stale or not inside:
            assert (self.member.state, self.member.next(self.now)) == before
        else:
            self.note(code)

    @rule(code=CODES)
    def find_badly(self, code: int) -> None:
        self.member.not_found(code, self.now)
        self.note(code)

    @rule()
    def break_connection(self) -> None:
        self.member.unreachable(self.now)

    @rule()
    def find(self) -> None:
        self.member.found(2)

    @rule()
    def leave_answered(self) -> None:
        if self.member.state is State.LEAVING:
            self.expelled = True
        self.member.left()

    @rule()
    def tick(self) -> None:
        before = self.member.identity.generation
        tick = self.member.tick(self.now)
        assert isinstance(tick, Beat | Leave | Wait | FindCoordinator)
        if isinstance(tick, Beat):
            assert tick.identity.generation >= 0
            assert tick.request.encode(4)
        if before != -1 and self.member.identity.generation == -1:
            self.expelled = True

    @precondition(lambda self: self.member.state is not State.LEFT)
    @rule(code=st.sampled_from([22, 25]))
    def be_expelled(self, code: int) -> None:
        if self.member.identity.generation != -1:
            self.member.answered(self.member.identity, code, self.now)
            self.expelled = True

    def note(self, code: int) -> None:
        if code in (22, 25, 82) and self.member.identity.generation == -1:
            self.expelled = True

    # --- promises -----------------------------------------------------------------------

    @invariant()
    def there_is_always_one_thing_to_do_and_asking_changes_nothing(self) -> None:
        action = self.member.next(self.now)
        assert action == self.member.next(self.now)
        if isinstance(action, Ready):
            assert action.generation == self.member.identity.generation >= 0
            assert self.member.coordinator is not None
        if isinstance(action, Wait):
            assert action.until > self.now

    @invariant()
    def the_user_and_the_member_agree_on_what_is_owned(self) -> None:
        assert self.member.owned == self.reads

    @invariant()
    def what_is_lost_is_never_called_revoked(self) -> None:
        action = self.member.next(self.now)
        if self.expelled and self.reads and self.member.identity.generation == -1:
            assert isinstance(action, Lose), action
        if isinstance(action, Lose):
            assert self.expelled
        if isinstance(action, Revoke):
            assert not self.expelled or self.member.identity.generation != -1


AnyOrder.TestCase.settings = hypothesis_settings(max_examples=200, stateful_step_count=60)
TestAnyOrder = AnyOrder.TestCase


def test_every_state_can_be_left_and_reached() -> None:
    reached = {State.LEFT}
    while more := {new for (old, _), new in TABLE.items() if old in reached} - reached:
        reached |= more
    assert reached == set(State)
    assert {old for old, new in ((old, TABLE[old, event]) for old, event in TABLE)} == set(State)
    assert {event for _, event in TABLE} == set(Event)
