"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup: the classic protocol of groups."""

from __future__ import annotations

import time
from collections.abc import Callable

from kclient.protocol import Message
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kclient.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kclient.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from kclient.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.groups.classic import ClassicGroup, GroupState, Member
from kclient.testing.fake.handlers.registry import code_of, handles


@handles(JoinGroupRequest)
def join_group(call: Call, request: JoinGroupRequest) -> Message:
    """Join, and wait until the next generation begins."""
    call.coordinate(request.group_id)
    group = call.state.groups.classic(request.group_id)
    if request.session_timeout_ms <= 0:
        raise Refusal(Code.INVALID_SESSION_TIMEOUT)
    member_id = _member_id(call, group, request)
    now = time.monotonic()
    joiner = _joiner(call, request, member_id, now)
    group.check_protocols(joiner, request.protocol_type)
    if call.version >= 4 and not request.member_id and request.group_instance_id is None:
        # The id goes out first, so that a joiner whose answer is lost leaves no ghost (KIP-394).
        group.expected.add(member_id)
        return JoinGroupResponse(error_code=Code.MEMBER_ID_REQUIRED, member_id=member_id)
    generation = group.generation
    member = group.join(joiner, request.protocol_type, now)
    call.state.changed.notify_all()
    _await(call, group, lambda: not member.is_joining or group.members.get(member.id) is not member)
    if group.members.get(member.id) is not member:
        raise Refusal(Code.FENCED_INSTANCE_ID if member.is_static else Code.UNKNOWN_MEMBER_ID)
    is_back = not request.member_id and group.generation == generation
    return _joined(call, group, member, keeps_assignment=is_back)


def _member_id(call: Call, group: ClassicGroup, request: JoinGroupRequest) -> str:
    if not request.member_id:
        return call.state.groups.new_member_id(call.seen.client_id)
    group.check_instance(request.member_id, request.group_instance_id)
    known = {*group.members, *group.expected}
    if request.member_id not in known:
        raise Refusal(Code.UNKNOWN_MEMBER_ID)
    return request.member_id


def _joiner(call: Call, request: JoinGroupRequest, member_id: str, now: float) -> Member:
    rebalance_ms = request.rebalance_timeout_ms if call.version >= 1 else request.session_timeout_ms
    return Member(
        id=member_id,
        instance_id=request.group_instance_id,
        client_id=call.seen.client_id or "",
        session_timeout=request.session_timeout_ms / 1000,
        rebalance_timeout=rebalance_ms / 1000,
        protocols={protocol.name: bytes(protocol.metadata) for protocol in request.protocols},
        last_seen=now,
    )


def _joined(
    call: Call, group: ClassicGroup, member: Member, *, keeps_assignment: bool
) -> JoinGroupResponse:
    """Only the leader learns of the others.

    A leader that is back as it was must not assign again: told since v9, and before that
    by hiding from it that it leads (KIP-814).
    """
    leads = member.id == group.leader
    skips = leads and keeps_assignment and call.version >= 9
    hides = leads and keeps_assignment and call.version < 9
    members = [
        JoinGroupResponseMember(
            member_id=other.id,
            group_instance_id=other.instance_id,
            metadata=other.protocols[group.protocol],
        )
        for other in group.members.values()
        if leads and not hides
    ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader="" if hides else group.leader,
        skip_assignment=skips,
        member_id=member.id,
        members=members,
    )


@handles(SyncGroupRequest)
def sync_group(call: Call, request: SyncGroupRequest) -> Message:
    """Take the leader's assignments, or wait for them; each member gets its own."""
    group = _group(call, request.group_id)
    member = group.member(
        request.member_id, request.group_instance_id, request.generation_id, time.monotonic()
    )
    agreed = (group.protocol_type, group.protocol)
    if call.version >= 5 and agreed != (request.protocol_type, request.protocol_name):
        raise Refusal(Code.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is GroupState.COMPLETING and member.id == group.leader:
        group.assign({item.member_id: bytes(item.assignment) for item in request.assignments})
        call.state.changed.notify_all()
    generation = group.generation
    _await(
        call,
        group,
        lambda: group.state is not GroupState.COMPLETING or group.generation != generation,
    )
    if group.state is not GroupState.STABLE or group.generation != generation:
        raise Refusal(Code.REBALANCE_IN_PROGRESS)
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )


@handles(HeartbeatRequest)
def heartbeat(call: Call, request: HeartbeatRequest) -> Message:
    """Keep a member in; it hears of a rebalance this way."""
    group = _group(call, request.group_id)
    group.member(
        request.member_id, request.group_instance_id, request.generation_id, time.monotonic()
    )
    if group.state is GroupState.PREPARING:
        raise Refusal(Code.REBALANCE_IN_PROGRESS)
    return HeartbeatResponse()


@handles(LeaveGroupRequest)
def leave_group(call: Call, request: LeaveGroupRequest) -> Message:
    """Let members go; before v3 one, whose error is at the top."""
    call.coordinate(request.group_id)
    if call.version < 3:
        _leave(call, request.group_id, request.member_id, None)
        return LeaveGroupResponse()
    answers = [
        MemberResponse(
            member_id=who.member_id,
            group_instance_id=who.group_instance_id,
            error_code=code_of(
                _leave, call, request.group_id, who.member_id, who.group_instance_id
            ),
        )
        for who in request.members
    ]
    return LeaveGroupResponse(members=answers)


def _leave(call: Call, group_id: str, member_id: str, instance_id: str | None) -> None:
    _group(call, group_id).leave(member_id, instance_id, time.monotonic())
    call.state.changed.notify_all()


def _group(call: Call, group_id: str) -> ClassicGroup:
    call.coordinate(group_id)
    found = call.state.groups.find(group_id)
    if not isinstance(found, ClassicGroup):
        raise Refusal(Code.UNKNOWN_MEMBER_ID)
    return found


def _await(call: Call, group: ClassicGroup, happened: Callable[[], bool]) -> None:
    """Wait for other members, and let time pass for them; the coordinator may move away."""

    def is_over() -> bool:
        return happened() or call.state.coordinator(group.id) != call.node.id

    while not is_over():
        call.wait_until(is_over, group.next_deadline(time.monotonic()))
        if group.tick(time.monotonic()):
            call.state.changed.notify_all()
    call.coordinate(group.id)
