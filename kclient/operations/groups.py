"""Groups of every kind: listed, deleted, relieved of members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kclient.cluster.call import Call
from kclient.cluster.target import Coordinator, CoordinatorKind
from kclient.errors import InvalidRequest, KafkaError, UnsupportedVersion
from kclient.operations.given import need, several
from kclient.operations.many import (
    COORDINATOR_CODES,
    CallFor,
    Many,
    Results,
    check,
    outcome,
    reading,
)
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kclient.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from kclient.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@dataclass(frozen=True)
class GroupListing:
    """A group. ``state`` is told since Kafka 2.6, ``type`` since 3.8; ``""`` before.

    ``type`` is ``classic``, ``consumer`` (KIP-848), ``share`` or ``streams``.
    """

    group_id: str
    protocol_type: str
    state: str = ""
    type: str = ""


@dataclass(frozen=True)
class MemberRef:
    """A member to remove: by its id, or by its ``group_instance_id`` if it is a static one."""

    member_id: str = ""
    instance_id: str | None = None


def coordinator_of(group_id: str) -> Coordinator:
    """Where a group is kept."""
    return Coordinator(CoordinatorKind.GROUP, group_id)


def check_group(group_id: str) -> str:
    """The id, if a group may have it. Raises InvalidRequest."""
    if not isinstance(group_id, str) or not group_id:
        raise InvalidRequest(f"a group's id is a string that is not empty, not {group_id!r}")
    return group_id


# --- list ---


def listing(states: Iterable[str], types: Iterable[str]) -> Call[list[GroupListing]]:
    """The groups that one broker coordinates."""
    wanted_states, wanted_types = several(states, "states"), several(types, "types")

    def build(version: int) -> ListGroupsRequest:
        if wanted_states:
            need(version, 4, "list groups by state", "2.6")
        if wanted_types:
            need(version, 5, "list groups by type", "3.8")
        return ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types)

    def read(answer: ListGroupsResponse) -> list[GroupListing]:
        check(answer.error_code, "groups were not listed", again=COORDINATOR_CODES)
        return [
            GroupListing(row.group_id, row.protocol_type, row.group_state, row.group_type.lower())
            for row in answer.groups
        ]

    return Call(ListGroupsRequest, build, reading(ListGroupsResponse, read))


# --- delete ---


def delete(given: Iterable[str]) -> Many[str, None]:
    """Delete groups, with their offsets; they must have no members."""
    ids = [check_group(each) for each in several(given, "group ids")]

    def call(items: Sequence[str], timeout_ms: int) -> CallFor[str, None]:
        def build(version: int) -> DeleteGroupsRequest:
            return DeleteGroupsRequest(groups_names=list(items))

        return Call(DeleteGroupsRequest, build, reading(DeleteGroupsResponse, _deleted))

    return Many("deleting groups", ids, call, coordinator_of)


def _deleted(answer: DeleteGroupsResponse) -> Results[str, None]:
    return {
        row.group_id: outcome(
            row.error_code, f"group {row.group_id!r} was not deleted", again=COORDINATOR_CODES
        )
        for row in answer.results
    }


# --- members ---


def read_members(given: Iterable[str | MemberRef]) -> list[MemberRef]:
    """Members to remove; a string is a member id."""
    return [
        MemberRef(each) if isinstance(each, str) else each for each in several(given, "member ids")
    ]


def remove_members(
    group_id: str, members: Sequence[MemberRef], reason: str | None
) -> Many[MemberRef, None]:
    """Have a group go on without some of its members."""

    def call(items: Sequence[MemberRef], timeout_ms: int) -> CallFor[MemberRef, None]:
        def build(version: int) -> LeaveGroupRequest:
            if version >= 3:
                rows = [
                    MemberIdentity(
                        member_id=each.member_id, group_instance_id=each.instance_id, reason=reason
                    )
                    for each in items
                ]
                return LeaveGroupRequest(group_id=group_id, members=rows)
            if len(items) > 1 or items[0].instance_id is not None:
                raise UnsupportedVersion(
                    "the broker removes one member at a time, by its id: Kafka removes many, "
                    "and static ones, since 2.4"
                )
            return LeaveGroupRequest(group_id=group_id, member_id=items[0].member_id)

        def read(answer: LeaveGroupResponse) -> Results[MemberRef, None]:
            check(answer.error_code, f"no member left {group_id!r}", again=COORDINATOR_CODES)
            if not answer.members:  # before v3, the answer is about the only one
                return dict.fromkeys(items, None)
            return {_asked(items, row): _left(group_id, row) for row in answer.members}

        return Call(LeaveGroupRequest, build, reading(LeaveGroupResponse, read))

    return Many("removing members", members, call, lambda member: coordinator_of(group_id))


def _asked(items: Sequence[MemberRef], row: MemberResponse) -> MemberRef:
    """Which of the members a row is about; brokers may fill in the id of a static one."""
    exact = MemberRef(row.member_id, row.group_instance_id)
    named = MemberRef("", row.group_instance_id)
    return exact if exact in items or named not in items else named


def _left(group_id: str, row: MemberResponse) -> KafkaError | None:
    who = row.group_instance_id or row.member_id
    return outcome(
        row.error_code, f"{who!r} was not removed from {group_id!r}", again=COORDINATOR_CODES
    )
