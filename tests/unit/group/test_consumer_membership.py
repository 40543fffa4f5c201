from __future__ import annotations

import math
import random
from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kclient.group.actions import (
    Assign,
    ConsumerBeat,
    Fail,
    FindCoordinator,
    Lose,
    NameTopics,
    Ready,
    Revoke,
    Wait,
)
from kclient.group.consumer_membership import ConsumerGroupSettings, ConsumerMembership
from kclient.group.consumer_states import CONSUMER_TABLE, ConsumerEvent, ConsumerState
from kclient.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from kclient.types import TopicPartition

SETTINGS = ConsumerGroupSettings("billing", client_rack="a", group_remote_assignor="uniform")
ID, OTHER = UUID(int=1), UUID(int=2)


def of(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", number) for number in numbers)


def new(settings: ConsumerGroupSettings = SETTINGS) -> ConsumerMembership:
    member = ConsumerMembership(settings, "me", random.Random(1))
    member.subscribe(["t"], 0.0)
    member.found(7)
    member.named({ID: "t"})
    return member


def beat(member: ConsumerMembership, now: float = 0.0) -> ConsumerGroupHeartbeatRequest:
    action = member.tick(now)
    assert isinstance(action, ConsumerBeat)
    assert action.request.encode(1)
    return action.request


def target(topic: UUID, *numbers: int) -> Assignment:
    return Assignment(
        topic_partitions=[ResponseTopicPartitions(topic_id=topic, partitions=list(numbers))]
    )


def hear(
    member: ConsumerMembership, epoch: int, assignment: Assignment | None = None, now: float = 0.0
) -> ConsumerGroupHeartbeatRequest:
    """One heartbeat that succeeds; answers what it said."""
    request = beat(member, now)
    answer = ConsumerGroupHeartbeatResponse(
        member_id="me", member_epoch=epoch, heartbeat_interval_ms=5000, assignment=assignment
    )
    member.answered(request, answer, now)
    return request


def settle(member: ConsumerMembership, now: float = 0.0) -> list[object]:
    calls: list[object] = []
    while isinstance(call := member.next(now), Revoke | Lose | Assign):
        assert len(calls) < 5, "the calls do not end"
        calls.append(call)
        member.done(call)
    return calls


def refuse(member: ConsumerMembership, code: int, now: float = 0.0) -> None:
    member.answered(beat(member, now), ConsumerGroupHeartbeatResponse(error_code=code), now)


def test_joining_says_everything_and_then_only_what_is_new() -> None:
    member = ConsumerMembership(SETTINGS, "me")
    assert member.tick(0.0) == Wait(math.inf)
    member.subscribe(["t"], 0.0)
    assert member.tick(0.0) == FindCoordinator()
    member.found(7)
    joined = hear(member, 1, target(ID, 0, 1))
    assert (joined.member_id, joined.member_epoch, joined.rack_id) == ("me", 0, "a")
    assert (joined.subscribed_topic_names, joined.topic_partitions) == (["t"], [])
    assert (joined.rebalance_timeout_ms, joined.server_assignor) == (300_000, "uniform")
    assert member.next(0.0) == NameTopics(frozenset({ID}))
    member.named({ID: "t"})
    assert settle(member) == [Assign(of(0, 1))]
    assert member.next(0.0) == Ready(1)
    told = hear(member, 1)
    assert told.topic_partitions is not None
    assert [(each.topic_id, each.partitions) for each in told.topic_partitions] == [(ID, [0, 1])]
    assert (told.subscribed_topic_names, told.rebalance_timeout_ms) == (None, -1)
    assert member.tick(0.0) == Wait(5.0)
    quiet = beat(member, 5.0)
    assert (quiet.topic_partitions, quiet.subscribed_topic_names) == (None, None)


def test_what_moves_is_given_up_before_it_is_told_and_anything_is_taken() -> None:
    member = new()
    hear(member, 1, target(ID, 0, 1))
    settle(member)
    hear(member, 1)
    hear(member, 2, target(ID, 1, 2), now=5.0)
    assert member.next(5.0) == Revoke(of(0))
    assert isinstance(member.tick(5.0), Wait)  # no news while the user is in a call
    assert settle(member) == [Revoke(of(0)), Assign(of(2))]
    told = hear(member, 2, now=5.0)
    assert told.topic_partitions is not None
    assert told.topic_partitions[0].partitions == [1, 2]


def test_a_topic_made_anew_is_another_topic() -> None:
    member = new()
    hear(member, 1, target(ID, 0))
    settle(member)
    hear(member, 1)
    hear(member, 2, target(OTHER, 0), now=5.0)
    member.named({OTHER: "t"})
    assert settle(member) == [Revoke(of(0)), Assign(of(0))]
    told = hear(member, 2, now=5.0)
    assert told.topic_partitions is not None
    assert told.topic_partitions[0].topic_id == OTHER


@pytest.mark.parametrize("code", [25, 110])
def test_the_expelled_lose_all_and_join_with_epoch_0(code: int) -> None:
    member = new()
    hear(member, 3, target(ID, 0))
    settle(member)
    refuse(member, code)
    assert settle(member) == [Lose(of(0))]
    again = beat(member)
    assert (again.member_id, again.member_epoch) == ("me", 0)
    assert (again.subscribed_topic_names, again.topic_partitions) == (["t"], [])


def test_all_is_said_again_after_doubt() -> None:
    member = new()
    hear(member, 1, target(ID, 0))
    settle(member)
    hear(member, 1)
    member.unreachable(1.0)
    assert isinstance(member.tick(1.0), Wait)
    assert member.tick(2.0) == FindCoordinator()
    member.found(8)
    assert member.next(2.0) == Ready(1)
    told = beat(member, 6.0)
    assert (told.member_epoch, told.subscribed_topic_names) == (1, ["t"])
    assert told.topic_partitions is not None
    assert told.rebalance_timeout_ms == 300_000


def test_a_pattern_is_the_brokers_business() -> None:
    member = ConsumerMembership(SETTINGS, "me")
    member.subscribe([], 0.0, pattern="orders-.*")
    member.found(7)
    assert hear(member, 1).subscribed_topic_regex == "orders-.*"
    assert isinstance(member.tick(0.0), Wait)
    member.subscribe(["t"], 1.0)
    changed = hear(member, 1, now=1.0)
    assert (changed.subscribed_topic_regex, changed.subscribed_topic_names) == ("", ["t"])


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("till-4", -2)])
def test_leaving(instance_id: str | None, epoch: int) -> None:
    member = new(replace(SETTINGS, group_instance_id=instance_id))
    hear(member, 1, target(ID, 0))
    settle(member)
    hear(member, 1)
    member.unsubscribe()
    assert isinstance(member.tick(0.0), Wait)  # not before all is given up
    assert settle(member) == [Revoke(of(0))]
    request = beat(member)
    assert (request.member_epoch, request.instance_id) == (epoch, instance_id)
    member.answered(request, ConsumerGroupHeartbeatResponse(member_epoch=epoch), 0.0)
    assert member.state is ConsumerState.LEFT
    assert member.tick(0.0) == member.next(0.0) == Wait(math.inf)


def test_who_does_not_poll_leaves_and_stays_out_until_it_does() -> None:
    member = new()
    hear(member, 1, target(ID, 0))
    settle(member)
    assert beat(member, 300.1).member_epoch == -1
    assert member.tick(300.2) == Wait(math.inf)
    member.polled(400.0)
    assert settle(member) == [Lose(of(0))]
    assert beat(member, 400.0).member_epoch == 0


@pytest.mark.parametrize(
    ("code", "words"),
    [(111, "same group_instance_id"), (112, "group.consumer.assignors"), (35, "Kafka 4.0")],
)
def test_refusals_are_raised_then_tried_again(code: int, words: str) -> None:
    member = new()
    refuse(member, code)
    failure = member.next(0.0)
    assert isinstance(failure, Fail)
    assert words in str(failure.error)
    member.done(failure)
    assert beat(member, 2.0).member_epoch == 0


def test_a_replaced_static_member_is_out_for_good() -> None:
    member = new(replace(SETTINGS, group_instance_id="till-4"))
    hear(member, 1, target(ID, 0))
    settle(member)
    refuse(member, 82)
    assert settle(member) == [Lose(of(0))]
    failure = member.next(9.0)
    assert isinstance(failure, Fail)
    member.done(failure)
    assert isinstance(member.next(9.0), Fail)
    assert member.tick(9.0) == Wait(math.inf)


def test_late_answers_are_ignored() -> None:
    member = new()
    hear(member, 1)
    late = ConsumerGroupHeartbeatRequest(member_id="me", member_epoch=0)
    member.answered(late, ConsumerGroupHeartbeatResponse(error_code=25), 0.0)
    assert member.next(0.0) == Ready(1)


CODES = st.sampled_from([-1, 14, 15, 16, 25, 30, 35, 82, 110, 111, 112, 999])
TARGETS = st.none() | st.sets(st.integers(0, 3)).map(lambda numbers: target(ID, *numbers))


class AnyOrder(RuleBasedStateMachine):
    """Any order of events keeps the promises; ``reads`` is what the user was told to read."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.reads: set[TopicPartition] = set()

    @initialize(instance_id=st.sampled_from([None, "static"]), seed=st.integers())
    def start(self, instance_id: str | None, seed: int) -> None:
        settings = replace(SETTINGS, group_instance_id=instance_id)
        self.member = ConsumerMembership(settings, "me", random.Random(seed))

    @rule(topics=st.sets(st.sampled_from("tu")), pattern=st.sampled_from([None, "x.*"]))
    def subscribe(self, topics: set[str], pattern: str | None) -> None:
        self.member.subscribe(topics, self.now, pattern)

    @rule()
    def unsubscribe(self) -> None:
        self.member.unsubscribe()

    @rule()
    def leave_answered(self) -> None:
        self.member.left()

    @rule(seconds=st.sampled_from([0.01, 1.0, 6.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def poll(self) -> None:
        self.member.polled(self.now)

    @rule(steps=st.integers(1, 6), assignment=TARGETS)
    def go_well(self, steps: int, assignment: Assignment | None) -> None:
        for _ in range(steps):
            self.call()
            tick = self.member.tick(self.now)
            if isinstance(tick, FindCoordinator):
                self.member.found(1)
            elif isinstance(tick, ConsumerBeat):
                assert tick.request.encode(1)
                epoch = max(1, tick.request.member_epoch)
                answer = ConsumerGroupHeartbeatResponse(
                    member_epoch=epoch, heartbeat_interval_ms=5000, assignment=assignment
                )
                self.member.answered(tick.request, answer, self.now)
            elif tick.until < math.inf:
                self.now = tick.until

    @rule()
    def call(self) -> None:
        action = self.member.next(self.now)
        if isinstance(action, NameTopics):
            self.member.named({ID: "t"})
        elif isinstance(action, Assign):
            assert self.reads.isdisjoint(action.partitions)
            self.reads |= set(action.partitions)
            self.member.done(action)
        elif isinstance(action, Revoke | Lose):
            assert action.partitions
            assert set(action.partitions) <= self.reads
            self.reads -= set(action.partitions)
            self.member.done(action)
        elif isinstance(action, Fail):
            self.member.done(action)

    @rule(code=CODES)
    def answer_badly(self, code: int) -> None:
        tick = self.member.tick(self.now)
        if isinstance(tick, ConsumerBeat):
            answer = ConsumerGroupHeartbeatResponse(error_code=code)
            self.member.answered(tick.request, answer, self.now)

    @rule(code=CODES)
    def find_badly(self, code: int) -> None:
        self.member.not_found(code, self.now)

    @rule()
    def break_connection(self) -> None:
        self.member.unreachable(self.now)

    @invariant()
    def promises(self) -> None:
        action = self.member.next(self.now)
        assert action == self.member.next(self.now)
        assert self.member.owned == self.reads
        if isinstance(action, Ready):
            assert action.generation == self.member.epoch > 0
        if self.member.epoch == 0 and self.reads:
            assert isinstance(action, Lose)
        if isinstance(action, Lose):
            assert self.member.epoch == 0 or self.member.state is ConsumerState.MEMBER
        if isinstance(action, Revoke):
            assert self.member.epoch > 0


AnyOrder.TestCase.settings = hypothesis_settings(max_examples=200, stateful_step_count=50)
TestAnyOrder = AnyOrder.TestCase


def test_every_state_can_be_left_and_reached() -> None:
    reached = {ConsumerState.LEFT}
    while more := {new for (old, _), new in CONSUMER_TABLE.items() if old in reached} - reached:
        reached |= more
    assert reached == {old for old, _ in CONSUMER_TABLE} == set(ConsumerState)
    assert {event for _, event in CONSUMER_TABLE} == set(ConsumerEvent)
