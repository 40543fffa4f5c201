"""The pure membership against a real coordinator, driven over plain sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from kclient.group.actions import (
    Action,
    Assign,
    Fail,
    FindCoordinator,
    Join,
    Leave,
    Lose,
    Ready,
    Revoke,
    Spread,
    Sync,
)
from kclient.group.assignors import PartitionInfo, choose_assignors
from kclient.group.membership import Membership
from kclient.group.requests import GroupSettings, heartbeat_request
from kclient.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kclient.protocol.messages.heartbeat import HeartbeatResponse
from kclient.protocol.messages.join_group import JoinGroupResponse
from kclient.protocol.messages.leave_group import LeaveGroupResponse
from kclient.protocol.messages.sync_group import SyncGroupResponse

from .exchange import Wire, create_topic, metadata, new_name, until

PARTITIONS = 6


class Driver:
    """Performs what a membership asks for, on one connection to the only broker."""

    def __init__(self, wire: Wire, settings: GroupSettings, topic: str, address: str) -> None:
        self.wire = wire
        self.settings = settings
        self.topic = topic
        self.address = address
        self.now = 0.0
        self.calls: list[Action] = []
        self.member = Membership(settings)
        self.member.subscribe([topic], self.now)

    def run(self) -> None:
        """Until there is nothing more to do, but to read or to stay away."""
        while self.step():
            pass

    def step(self) -> bool:
        self.now += 1.0  # nothing waits: the clock is ours
        action = self.member.next(self.now)
        if isinstance(action, FindCoordinator):
            until(self.find, "the group has a coordinator")
        elif isinstance(action, Join):
            self.member.joined(self.wire.ask(action.request, JoinGroupResponse, 9), self.now)
        elif isinstance(action, Spread):
            self.member.spread(
                {
                    found.name or "": [
                        PartitionInfo(each.partition_index) for each in found.partitions
                    ]
                    for found in metadata(self.address, 12, sorted(action.topics)).topics
                }
            )
        elif isinstance(action, Sync):
            self.member.synced(self.wire.ask(action.request, SyncGroupResponse, 5), self.now)
        elif isinstance(action, Leave):
            assert self.wire.ask(action.request(5), LeaveGroupResponse, 5).error_code == 0
            self.member.left()
        elif isinstance(action, Revoke | Lose | Assign):
            self.calls.append(action)
            self.member.done(action)
        elif isinstance(action, Fail):
            raise action.error
        else:
            return False
        return True

    def find(self) -> bool:
        request = FindCoordinatorRequest(coordinator_keys=[self.settings.group_id])
        (found,) = self.wire.ask(request, FindCoordinatorResponse, 4).coordinators
        if found.error_code:
            self.member.not_found(found.error_code, self.now)
            return False
        self.member.found(found.node_id)
        return True

    def beat(self) -> int:
        """A heartbeat; answers its error code."""
        identity = self.member.identity
        answer = self.wire.ask(heartbeat_request(self.settings, identity), HeartbeatResponse, 4)
        self.member.answered(identity, answer.error_code, self.now)
        return answer.error_code

    @property
    def numbers(self) -> set[int]:
        return {tp.partition for tp in self.member.owned}


Start = Callable[..., Driver]


@pytest.fixture
def start(bootstrap_servers: str) -> Iterator[Start]:
    """Makes members of one new group, all subscribed to one new topic."""
    topic = group = new_name()
    create_topic(bootstrap_servers, topic, partitions=PARTITIONS)
    with ExitStack() as stack:

        def start(assignor: str, **more: object) -> Driver:
            settings = GroupSettings(group, choose_assignors([assignor]), **more)  # type: ignore[arg-type]
            wire = stack.enter_context(Wire(bootstrap_servers))
            return Driver(wire, settings, topic, bootstrap_servers)

        yield start


@contextmanager
def joining(driver: Driver) -> Iterator[Future[None]]:
    """Let a member join in another thread, as it waits for the others to join again."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(driver.run)
        yield future
        future.result(30)


def meet(old: Driver, new: Driver) -> None:
    """Let a new member join, and the old one notice."""
    with joining(new):
        until(lambda: old.beat() == 27, "the old member hears of the new")
        old.run()


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_eager_members_share_the_topic(start: Start, assignor: str) -> None:
    one, two = start(assignor), start(assignor)
    one.run()
    assert one.numbers == set(range(PARTITIONS))
    assert one.beat() == 0
    meet(one, two)
    assert isinstance(one.calls[1], Revoke)
    assert len(one.calls[1].partitions) == PARTITIONS
    assert one.numbers | two.numbers == set(range(PARTITIONS))
    assert len(one.numbers) == len(two.numbers) == PARTITIONS // 2
    assert isinstance(one.member.next(one.now), Ready)


def test_cooperative_members_share_the_topic_in_two_rounds(start: Start) -> None:
    one, two = start("cooperative-sticky"), start("cooperative-sticky")
    one.run()
    kept = one.numbers
    with joining(two):
        until(lambda: one.beat() == 27, "the old member hears of the new")
        while one.step():
            if isinstance(one.member.next(one.now), Join) and len(one.numbers) < PARTITIONS:
                break  # it has given up what moves; the others have to hear of its return
    assert two.numbers == set()
    with joining(one):
        until(lambda: two.beat() == 27, "the new member hears of the second round")
        two.run()
    assert one.numbers | two.numbers == set(range(PARTITIONS))
    assert len(one.numbers) == len(two.numbers)
    assert one.numbers < kept
    revoked = [call for call in one.calls if isinstance(call, Revoke)]
    assert [len(call.partitions) for call in revoked] == [PARTITIONS // 2]


def test_who_left_is_unknown_and_comes_back(start: Start) -> None:
    driver = start("range")
    driver.run()
    identity = driver.member.identity
    driver.member.unsubscribe()
    driver.run()
    assert driver.member.identity.generation == -1
    answer = driver.wire.ask(heartbeat_request(driver.settings, identity), HeartbeatResponse, 4)
    assert answer.error_code == 25
    driver.member.subscribe([driver.topic], driver.now)
    driver.run()
    assert driver.numbers == set(range(PARTITIONS))
    assert driver.member.identity.member_id != identity.member_id


def test_a_static_member_takes_its_place_back_and_fences_its_double(start: Start) -> None:
    first = start("range", group_instance_id="till-4")
    first.run()
    second = start("range", group_instance_id="till-4")
    second.run()
    assert second.numbers == set(range(PARTITIONS))
    assert first.beat() == 82
    with pytest.raises(Exception, match="same group_instance_id"):
        first.run()
    assert isinstance(first.calls[-1], Lose)
    assert second.beat() == 0


def test_a_session_beyond_the_limit_is_lowered(start: Start) -> None:
    driver = start("range", session_timeout_ms=99_999_999)
    driver.run()
    assert driver.numbers == set(range(PARTITIONS))
