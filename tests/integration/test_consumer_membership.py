"""The pure membership of KIP-848 against a real coordinator, driven over plain sockets."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from kclient.group.actions import (
    Assign,
    Call,
    ConsumerBeat,
    Fail,
    FindCoordinator,
    Lose,
    NameTopics,
    Ready,
    Revoke,
)
from kclient.group.consumer_membership import ConsumerGroupSettings, ConsumerMembership
from kclient.group.consumer_states import ConsumerState
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kclient.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kclient.types import TopicPartition

from .exchange import Wire, create_topic, new_name, until

PARTITIONS = 6


class Driver:
    """Performs what a membership asks for, on one connection to the only broker."""

    def __init__(self, wire: Wire, settings: ConsumerGroupSettings, names: dict[uuid.UUID, str]):
        self.wire = wire
        self.settings = settings
        self.names = names
        self.now = 0.0
        self.calls: list[Call] = []
        self.member = ConsumerMembership(settings, str(uuid.uuid4()))

    def step(self) -> None:
        """A call if one is owed, and a heartbeat."""
        self.now += 10.0  # beyond any interval: the clock is ours
        self.member.polled(self.now)
        action = self.member.next(self.now)
        if isinstance(action, NameTopics):
            self.member.named(self.names)
        elif isinstance(action, Revoke | Lose | Assign):
            self.calls.append(action)
            self.member.done(action)
        elif isinstance(action, Fail):
            raise action.error
        tick = self.member.tick(self.now)
        if isinstance(tick, FindCoordinator):
            self.find()
        elif isinstance(tick, ConsumerBeat):
            answer = self.wire.ask(tick.request, ConsumerGroupHeartbeatResponse, 1)
            self.member.answered(tick.request, answer, self.now)

    def find(self) -> None:
        request = FindCoordinatorRequest(coordinator_keys=[self.settings.group_id])
        (found,) = self.wire.ask(request, FindCoordinatorResponse, 4).coordinators
        if found.error_code:
            self.member.not_found(found.error_code, self.now)
        else:
            self.member.found(found.node_id)

    @property
    def numbers(self) -> set[int]:
        return {tp.partition for tp in self.member.owned}


Start = Callable[..., Driver]


@pytest.fixture
def start(bootstrap_servers: str) -> Iterator[Start]:
    """Makes members of one new group, all subscribed to one new topic."""
    topic = group = new_name()
    topic_id = create_topic(bootstrap_servers, topic, partitions=PARTITIONS)
    with ExitStack() as stack:

        def start(by_pattern: bool = False, **more: str) -> Driver:
            settings = ConsumerGroupSettings(group, **more)  # type: ignore[arg-type]
            wire = stack.enter_context(Wire(bootstrap_servers))
            driver = Driver(wire, settings, {topic_id: topic})
            names = [] if by_pattern else [topic]
            driver.member.subscribe(names, 0.0, f"{topic[:-1]}." if by_pattern else None)
            return driver

        yield start


def wait_for(drivers: list[Driver], done: Callable[[], bool], what: str) -> None:
    """Step all in turn until it is so."""

    def is_done() -> bool:
        for driver in drivers:
            driver.step()
        return done()

    until(is_done, what)


def test_members_share_the_topic_without_ever_owning_the_same(start: Start) -> None:
    one = start()
    wait_for([one], lambda: one.numbers == set(range(PARTITIONS)), "the first reads all")
    assert isinstance(one.member.next(one.now), Ready)
    two = start()
    both = [one, two]

    def is_shared() -> bool:
        assert not one.numbers & two.numbers
        return len(one.numbers) == len(two.numbers) == PARTITIONS // 2

    wait_for(both, is_shared, "they share")
    assert {type(call) for call in one.calls} == {Assign, Revoke}
    two.member.unsubscribe()
    wait_for(both, lambda: len(one.numbers) == PARTITIONS, "the first reads all again")
    assert two.member.state is ConsumerState.LEFT
    assert two.numbers == set()


def test_the_broker_matches_patterns(start: Start) -> None:
    driver = start(by_pattern=True)
    wait_for([driver], lambda: len(driver.numbers) == PARTITIONS, "the topic is found")


def test_a_fenced_member_loses_all_and_returns(start: Start) -> None:
    driver = start()
    wait_for([driver], lambda: len(driver.numbers) == PARTITIONS, "it reads all")
    driver.member.epoch += 100  # as if the coordinator had forgotten what it granted
    wait_for([driver], lambda: isinstance(driver.calls[-1], Lose), "it hears of it")
    wait_for([driver], lambda: len(driver.numbers) == PARTITIONS, "it reads all again")
    (lost,) = (call for call in driver.calls if isinstance(call, Lose))
    assert {tp.partition for tp in lost.partitions} == set(range(PARTITIONS))


def test_a_static_member_keeps_its_place_and_a_double_is_refused(start: Start) -> None:
    first = start(group_instance_id="till-4")
    wait_for([first], lambda: len(first.numbers) == PARTITIONS, "it reads all")
    double = start(group_instance_id="till-4")
    with pytest.raises(Exception, match="same group_instance_id"):
        wait_for([double], lambda: False, "it is refused")
    first.member.unsubscribe()
    wait_for([first], lambda: first.member.state is ConsumerState.LEFT, "it goes for a while")
    second = start(group_instance_id="till-4")
    wait_for([second], lambda: len(second.numbers) == PARTITIONS, "its successor reads all")
    assert second.calls == [
        Assign(tuple(TopicPartition(second.settings.group_id, n) for n in range(PARTITIONS)))
    ]


def test_an_unknown_assignor_is_refused_with_advice(start: Start) -> None:
    driver = start(group_remote_assignor="mystery")
    with pytest.raises(Exception, match="group.consumer.assignors"):
        wait_for([driver], lambda: False, "it is refused")
