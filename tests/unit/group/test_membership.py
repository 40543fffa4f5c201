from __future__ import annotations

import math
import pickle
import random
from dataclasses import replace

import pytest

from kclient.errors import BrokerError, NotAuthorized, ProtocolError
from kclient.group.actions import (
    Assign,
    Beat,
    Fail,
    FindCoordinator,
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
from kclient.group.assignors.metadata import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from kclient.group.membership import Membership
from kclient.group.requests import GroupSettings
from kclient.group.states import State
from kclient.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from kclient.protocol.messages.sync_group import SyncGroupResponse
from kclient.types import TopicPartition

EAGER = GroupSettings("billing", choose_assignors(["range"]))
COOPERATIVE = GroupSettings("billing", choose_assignors(["cooperative-sticky"]))


def of(*numbers: int, topic: str = "t") -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for number in numbers)


def new(settings: GroupSettings = EAGER) -> Membership:
    member = Membership(settings, random.Random(1))
    member.subscribe(["t"], 0.0)
    member.found(7)
    return member


def admission(member: Membership, generation: int = 1, **more: object) -> JoinGroupResponse:
    action = member.next(0.0)
    assert isinstance(action, Join)
    answer = {
        "generation_id": generation,
        "protocol_name": action.request.protocols[0].name,
        "leader": "other",
        "member_id": action.request.member_id or "me",
        **more,
    }
    return JoinGroupResponse(**answer)  # type: ignore[arg-type]


def share(member: Membership, *numbers: int, generation: int = 1, now: float = 0.0) -> None:
    """Join, sync and let the user see all calls through."""
    member.joined(admission(member, generation), now)
    member.synced(SyncGroupResponse(assignment=encode_assignment(of(*numbers))), now)
    settle(member, now)


def settle(member: Membership, now: float = 0.0) -> list[object]:
    calls: list[object] = []
    while isinstance(call := member.next(now), Revoke | Lose | Assign):
        assert len(calls) < 5, "the calls do not end"
        calls.append(call)
        member.done(call)
    return calls


def test_the_way_in() -> None:
    member = Membership(EAGER, random.Random(1))
    assert member.next(0.0) == Wait(math.inf)
    member.subscribe(["t"], 0.0)
    assert member.next(0.0) == FindCoordinator()
    member.found(7)
    action = member.next(0.0)
    assert isinstance(action, Join)
    assert (action.request.group_id, action.request.member_id) == ("billing", "")
    assert decode_subscription(action.request.protocols[0].metadata).topics == ("t",)
    member.joined(admission(member), 0.0)
    sync = member.next(0.0)
    assert isinstance(sync, Sync)
    assert (sync.request.generation_id, sync.request.member_id) == (1, "me")
    assert (sync.request.protocol_name, sync.request.assignments) == ("range", [])
    member.synced(SyncGroupResponse(assignment=encode_assignment(of(0, 1))), 0.0)
    assert member.next(0.0) == Assign(of(0, 1))
    member.done(Assign(of(0, 1)))
    assert member.next(0.0) == Ready(1)
    assert member.owned == set(of(0, 1))


def test_a_member_id_is_asked_for_first() -> None:
    member = new()
    member.joined(JoinGroupResponse(error_code=79, member_id="given"), 0.0)
    action = member.next(0.0)
    assert isinstance(action, Join)
    assert action.request.member_id == "given"


def test_the_leader_spreads_the_partitions() -> None:
    member = new()
    mine = member.next(0.0)
    assert isinstance(mine, Join)
    metadata = mine.request.protocols[0].metadata
    joined = [
        JoinGroupResponseMember(member_id="me", metadata=metadata),
        JoinGroupResponseMember(member_id="you", metadata=metadata),
    ]
    member.joined(admission(member, leader="me", members=joined), 0.0)
    assert member.next(0.0) == Spread(frozenset({"t"}))
    assert member.watched == {"t"}
    member.spread({"t": [PartitionInfo(0), PartitionInfo(1)]})
    sync = member.next(0.0)
    assert isinstance(sync, Sync)
    shares = {
        each.member_id: decode_assignment(each.assignment) for each in sync.request.assignments
    }
    assert shares == {"me": of(0), "you": of(1)}


def test_a_leader_told_to_skip_the_assignment_sends_none() -> None:
    member = new()
    member.joined(admission(member, leader="me", skip_assignment=True), 0.0)
    sync = member.next(0.0)
    assert isinstance(sync, Sync)
    assert sync.request.assignments == []


def test_eager_members_give_all_up_before_they_join_again() -> None:
    member = new()
    share(member, 0, 1)
    member.answered(member.identity, 27, 1.0)
    assert member.next(1.0) == Revoke(of(0, 1))
    assert settle(member, 1.0) == [Revoke(of(0, 1))]
    assert isinstance(member.next(1.0), Join)
    member.joined(admission(member, 2), 1.0)
    member.synced(SyncGroupResponse(assignment=encode_assignment(of(1, 2))), 1.0)
    assert settle(member, 1.0) == [Assign(of(1, 2))]
    assert member.next(1.0) == Ready(2)


def test_cooperative_members_give_up_only_what_moves_and_join_again() -> None:
    member = new(COOPERATIVE)
    share(member, 0, 1)
    member.answered(member.identity, 27, 1.0)
    join = member.next(1.0)
    assert isinstance(join, Join)
    told = decode_subscription(join.request.protocols[0].metadata)
    assert (set(told.owned), told.generation) == (set(of(0, 1)), 1)
    member.joined(admission(member, 2), 1.0)
    member.synced(SyncGroupResponse(assignment=encode_assignment(of(1))), 1.0)
    assert settle(member, 1.0) == [Revoke(of(0)), Assign(())]
    join = member.next(1.0)
    assert isinstance(join, Join)
    assert join.request.reason == "gave up partitions for others to take"
    told = decode_subscription(join.request.protocols[0].metadata)
    assert (told.owned, told.generation) == (of(1), 2)


def test_cooperative_members_that_lose_nothing_stay() -> None:
    member = new(COOPERATIVE)
    share(member, 0)
    member.rejoin("a test")
    member.joined(admission(member, 2), 1.0)
    member.synced(SyncGroupResponse(assignment=encode_assignment(of(0, 1))), 1.0)
    assert settle(member, 1.0) == [Assign(of(1))]
    assert member.next(1.0) == Ready(2)
    assert member.owned == set(of(0, 1))


def test_a_failed_sync_does_not_make_old_claims_look_new() -> None:
    member = new(COOPERATIVE)
    share(member, 0)
    member.rejoin("a test")
    member.joined(admission(member, 2), 1.0)
    member.synced(SyncGroupResponse(error_code=27), 1.0)
    join = member.next(1.0)
    assert isinstance(join, Join)
    assert decode_subscription(join.request.protocols[0].metadata).generation == 1


@pytest.mark.parametrize("settings", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
@pytest.mark.parametrize(("code", "keeps_id"), [(25, False), (22, True)])
def test_the_expelled_lose_all_and_come_back(
    settings: GroupSettings, code: int, keeps_id: bool
) -> None:
    member = new(settings)
    share(member, 0, 1)
    member.answered(member.identity, code, 1.0)
    assert member.identity.generation == -1
    assert settle(member, 1.0) == [Lose(of(0, 1))]
    join = member.next(1.0)
    assert isinstance(join, Join)
    assert join.request.member_id == ("me" if keeps_id else "")
    assert decode_subscription(join.request.protocols[0].metadata).owned == ()


def test_expelled_while_the_user_is_in_a_call() -> None:
    member = new()
    member.joined(admission(member), 0.0)
    member.synced(SyncGroupResponse(assignment=encode_assignment(of(0))), 0.0)
    call = member.next(0.0)
    assert call == Assign(of(0))
    member.answered(member.identity, 25, 0.0)
    member.done(Assign(of(0)))
    assert settle(member) == [Lose(of(0))]
    assert isinstance(member.next(0.0), Join)


def test_a_share_that_was_never_announced_is_not_lost() -> None:
    member = new()
    member.joined(admission(member), 0.0)
    member.synced(SyncGroupResponse(assignment=encode_assignment(of(0))), 0.0)
    member.answered(member.identity, 25, 0.0)
    assert isinstance(member.next(0.0), Join)
    share(member, 3, generation=2)
    assert member.next(0.0) == Ready(2)
    assert member.owned == set(of(3))


def test_a_rebalance_during_calls_waits_for_them() -> None:
    member = new()
    member.joined(admission(member), 0.0)
    member.synced(SyncGroupResponse(assignment=encode_assignment(of(0))), 0.0)
    member.answered(member.identity, 27, 0.0)
    assert settle(member) == [Assign(of(0)), Revoke(of(0))]
    assert isinstance(member.next(0.0), Join)


def test_late_answers_are_ignored() -> None:
    member = new()
    share(member, 0)
    stale = member.identity._replace(generation=0)
    member.answered(stale, 25, 1.0)
    member.joined(JoinGroupResponse(error_code=25), 1.0)
    member.synced(SyncGroupResponse(error_code=25), 1.0)
    assert member.next(1.0) == Ready(1)


@pytest.mark.parametrize("code", [15, 16])
def test_a_coordinator_that_moved_is_looked_for_and_the_place_kept(code: int) -> None:
    member = new()
    share(member, 0)
    member.answered(member.identity, code, 10.0)
    waiting = member.next(10.0)
    assert isinstance(waiting, Wait)
    assert 10.08 <= waiting.until <= 10.12
    assert member.next(waiting.until) == FindCoordinator()
    member.found(8)
    assert member.next(waiting.until) == Ready(1)
    assert member.owned == set(of(0))


def test_a_sync_that_got_no_answer_is_sent_again() -> None:
    member = new()
    member.joined(admission(member), 0.0)
    member.unreachable(0.0)
    assert member.next(9.0) == FindCoordinator()
    member.found(7)
    assert isinstance(member.next(9.0), Sync)


def test_waits_grow_and_end() -> None:
    member = new()
    waits = []
    for _ in range(8):
        member.unreachable(0.0)
        action = member.next(0.0)
        assert isinstance(action, Wait)
        waits.append(action.until)
    assert waits[0] < 0.13
    assert waits[2] > waits[0]
    assert max(waits) <= 1.2
    member.found(7)
    assert isinstance(member.next(0.0), Join)


def test_a_loading_coordinator_is_asked_again_later() -> None:
    member = new()
    member.joined(JoinGroupResponse(error_code=14), 0.0)
    assert isinstance(member.next(0.0), Wait)
    assert isinstance(member.next(1.0), Join)


# --- what only the user can mend -------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (23, "partition_assignment_strategy"),
        (24, "INVALID_GROUP_ID"),
        (30, "GROUP_AUTHORIZATION_FAILED"),
        (81, "group.max.size"),
        (-1, "UNKNOWN_SERVER_ERROR"),
        (999, "UNKNOWN_CODE_999"),
    ],
)
def test_refusals_are_raised_then_tried_again(code: int, words: str) -> None:
    member = new()
    member.joined(JoinGroupResponse(error_code=code), 0.0)
    failure = member.next(0.0)
    assert isinstance(failure, Fail)
    assert isinstance(failure.error, NotAuthorized if code == 30 else BrokerError)
    for part in (words, "JoinGroup", "'billing'"):
        assert part in str(failure.error)
    assert str(pickle.loads(pickle.dumps(failure.error))) == str(failure.error)
    member.done(failure)
    assert isinstance(member.next(0.0), Join)


def test_a_session_too_long_for_old_brokers_is_shortened_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    member = new()
    member.joined(JoinGroupResponse(error_code=26), 0.0)
    join = member.next(0.0)
    assert isinstance(join, Join)
    assert join.request.session_timeout_ms == 30_000
    assert "session_timeout_ms=45000; trying 30000" in caplog.text
    member.joined(JoinGroupResponse(error_code=26), 0.0)
    failure = member.next(0.0)
    assert isinstance(failure, Fail)
    assert "group.max.session.timeout.ms" in str(failure.error)


def test_an_assignor_nobody_offered_is_refused() -> None:
    member = new()
    member.joined(admission(member, protocol_name="mystery"), 0.0)
    failure = member.next(0.0)
    assert isinstance(failure, Fail)
    assert isinstance(failure.error, ProtocolError)
    assert "'mystery'" in str(failure.error)


def test_a_share_that_cannot_be_read_is_refused() -> None:
    member = new()
    member.joined(admission(member), 0.0)
    member.synced(SyncGroupResponse(assignment=b"\x00\x01\xff"), 0.0)
    assert isinstance(member.next(0.0), Fail)


def test_what_was_not_subscribed_is_not_taken() -> None:
    member = new()
    member.joined(admission(member), 0.0)
    strange = encode_assignment([*of(0), *of(5, topic="strange")])
    member.synced(SyncGroupResponse(assignment=strange), 0.0)
    assert member.next(0.0) == Assign(of(0))


# --- static members --------------------------------------------------------------------------

STATIC = replace(EAGER, group_instance_id="till-4")


def test_a_replaced_static_member_is_out_for_good() -> None:
    member = new(STATIC)
    share(member, 0)
    member.answered(member.identity, 82, 1.0)
    assert settle(member, 1.0) == [Lose(of(0))]
    for _ in range(2):
        failure = member.next(9.0)
        assert isinstance(failure, Fail)
        assert "'till-4'" in str(failure.error)
        assert "same group_instance_id" in str(failure.error)
        member.done(failure)
    assert member.tick(9.0) == Wait(math.inf)
    member.unsubscribe()
    assert member.next(9.0) == Wait(math.inf)


def test_static_members_leave_without_telling() -> None:
    member = new(STATIC)
    join = member.next(0.0)
    assert isinstance(join, Join)
    assert join.request.group_instance_id == "till-4"
    share(member, 0)
    member.unsubscribe()
    assert settle(member) == [Revoke(of(0))]
    assert member.next(0.0) == Wait(math.inf)


# --- leaving, and the user -------------------------------------------------------------------


def test_leaving_gives_up_then_tells() -> None:
    member = new()
    share(member, 0)
    member.unsubscribe()
    assert settle(member) == [Revoke(of(0))]
    leave = member.next(0.0)
    assert isinstance(leave, Leave)
    assert leave.request(2).member_id == "me"
    assert [each.member_id for each in leave.request(5).members] == ["me"]
    assert leave.request(2).encode(2)
    assert leave.request(5).encode(5)
    member.left()
    assert member.next(0.0) == Wait(math.inf)
    member.subscribe(["t"], 0.0)
    join = member.next(0.0)
    assert isinstance(join, Join)
    assert join.request.member_id == ""


def test_leaving_after_expulsion_loses() -> None:
    member = new()
    share(member, 0)
    member.answered(member.identity, 25, 0.0)
    member.unsubscribe()
    assert settle(member) == [Lose(of(0))]
    assert member.next(0.0) == Wait(math.inf)


def test_another_subscription_joins_again_without_the_topics_dropped() -> None:
    member = new(COOPERATIVE)
    share(member, 0)
    member.subscribe(["t"], 1.0)
    assert member.next(1.0) == Ready(1)
    member.subscribe(["u"], 1.0)
    assert settle(member, 1.0) == [Revoke(of(0))]
    join = member.next(1.0)
    assert isinstance(join, Join)
    assert decode_subscription(join.request.protocols[0].metadata).topics == ("u",)
    assert join.request.reason == "the subscription changed"


# --- time ------------------------------------------------------------------------------------


def test_heartbeats_are_due_at_their_interval() -> None:
    member = new()
    assert member.tick(0.0) == Wait(math.inf)
    share(member, 0)
    assert member.tick(1.0) == Wait(3.0)
    beat = member.tick(3.0)
    assert isinstance(beat, Beat)
    assert (beat.request.generation_id, beat.request.member_id) == (1, "me")
    assert beat.identity == member.identity
    assert member.tick(3.5) == Wait(6.0)


def test_a_silent_coordinator_is_looked_for_after_a_session() -> None:
    member = new()
    share(member, 0)
    member.answered(member.identity, 0, 10.0)
    assert isinstance(member.tick(55.0), Beat)
    assert member.tick(55.1) == FindCoordinator()
    member.found(8)
    assert member.next(55.1) == Ready(1)


@pytest.mark.parametrize("settings", [EAGER, STATIC], ids=["dynamic", "static"])
def test_who_does_not_poll_leaves(
    settings: GroupSettings, caplog: pytest.LogCaptureFixture
) -> None:
    member = new(settings)
    share(member, 0)
    member.polled(100.0)
    member.answered(member.identity, 0, 399.0)
    assert isinstance(member.tick(400.0), Beat)
    told = member.tick(400.1)
    assert isinstance(told, Leave if settings is EAGER else Wait)
    assert "max_poll_interval_ms=300000" in caplog.text
    assert member.tick(400.2) == Wait(math.inf)
    assert settle(member, 500.0) == [Lose(of(0))]
    assert isinstance(member.next(500.0), Join)
    assert member.state is State.OUTSIDE
