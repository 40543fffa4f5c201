"""Groups of every kind, described: whose they are, and what each member has.

A group's kind is not known before it is asked for: brokers say "no such group" to questions
about one of another kind, so the kinds are asked for in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kclient.cluster.call import Call
from kclient.errors import BrokerError, ProtocolError
from kclient.operations.given import need, operations_of
from kclient.operations.groups import coordinator_of
from kclient.operations.many import COORDINATOR_CODES, CallFor, Many, Results, failed, reading
from kclient.protocol.messages import consumer_group_describe as consumer
from kclient.protocol.messages import describe_groups as classic
from kclient.protocol.messages import share_group_describe as share
from kclient.protocol.messages import streams_group_describe as streams
from kclient.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kclient.protocol.wire import Message
from kclient.types import TopicPartition

M = TypeVar("M", bound=Message)
_Row = (
    classic.DescribedGroup | consumer.DescribedGroup | share.DescribedGroup | streams.DescribedGroup
)
_GROUP_ID_NOT_FOUND = 69
_DEAD = "Dead"


@dataclass(frozen=True)
class MemberDescription:
    """A member of a group, and the partitions it has.

    ``subscription`` are the topics it wants. ``target_assignment`` is what it is to have
    when the group has come to rest, where the broker plans that (KIP-848).
    """

    member_id: str
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] = ()
    subscription: tuple[str, ...] = ()
    instance_id: str | None = None
    rack_id: str | None = None
    epoch: int | None = None
    target_assignment: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True)
class GroupDescription:
    """A group and its members. ``state`` is Kafka's word: ``Stable``, ``Empty``, ..."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    authorized_operations: frozenset[str] | None = None


def is_of_another_kind(result: object) -> bool:
    """Whether an answer leaves open that the group is one of another kind."""
    return isinstance(result, BrokerError) and result.code == _GROUP_ID_NOT_FOUND


def not_found(group_id: str) -> BrokerError:
    """The error for a group of no kind."""
    return failed(_GROUP_ID_NOT_FOUND, f"group {group_id!r} does not exist", group=group_id)


def _describing(
    ids: Sequence[str],
    api: type[Message],
    build: Callable[[list[str], int], Message],
    read: Callable[[Message], Results[str, GroupDescription]],
) -> Many[str, GroupDescription]:
    def call(items: Sequence[str], timeout_ms: int) -> CallFor[str, GroupDescription]:
        return Call(api, lambda version: build(list(items), version), read)

    return Many("describing groups", ids, call, coordinator_of)


def _not_described(row: _Row) -> BrokerError | None:
    if not row.error_code:
        return None
    what = f"group {row.group_id!r} was not described"
    return failed(row.error_code, what, row.error_message, again=COORDINATOR_CODES)


# --- classic ---


def describe_classic(ids: Sequence[str], rights: bool) -> Many[str, GroupDescription]:
    """Groups whose members share out the partitions among themselves."""

    def build(items: list[str], version: int) -> classic.DescribeGroupsRequest:
        if rights:
            need(version, 3, "tell what this user may do", "2.3")
        return classic.DescribeGroupsRequest(groups=items, include_authorized_operations=rights)

    def read(answer: classic.DescribeGroupsResponse) -> Results[str, GroupDescription]:
        return {row.group_id: _not_described(row) or _classic(row) for row in answer.groups}

    read_any = reading(classic.DescribeGroupsResponse, read)
    return _describing(ids, classic.DescribeGroupsRequest, build, read_any)


def _classic(row: classic.DescribedGroup) -> GroupDescription | BrokerError:
    if row.group_state == _DEAD:  # how a broker says before v6 that there is none
        return not_found(row.group_id)
    is_consumer = row.protocol_type == "consumer"
    return GroupDescription(
        row.group_id,
        "classic",
        row.group_state,
        row.protocol_type,
        row.protocol_data,
        tuple(_classic_member(each, is_consumer) for each in row.members),
        authorized_operations=operations_of(row.authorized_operations),
    )


def _classic_member(row: classic.DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    assigned = subscribed = None
    if is_consumer:  # other kinds of members write what they like
        assigned = _decoded(ConsumerProtocolAssignment, row.member_assignment)
        subscribed = _decoded(ConsumerProtocolSubscription, row.member_metadata)
    return MemberDescription(
        row.member_id,
        row.client_id,
        row.client_host,
        assignment=tuple(
            TopicPartition(topic.topic, number)
            for topic in (assigned.assigned_partitions if assigned else ())
            for number in topic.partitions
        ),
        subscription=tuple(subscribed.topics) if subscribed else (),
        instance_id=row.group_instance_id,
        rack_id=subscribed.rack_id if subscribed else None,
    )


def _decoded(kind: type[M], data: bytes) -> M | None:
    """What a member wrote for its peers, with its version in front; None if it is not that."""
    version = min(int.from_bytes(data[:2], "big"), kind.VERSIONS[1])
    try:
        return kind.decode_at(data, 2, version)[0]
    except ProtocolError:
        return None


# --- those that the broker plans ---


def describe_consumer(ids: Sequence[str], rights: bool) -> Many[str, GroupDescription]:
    """Groups whose partitions the broker shares out (KIP-848)."""

    def build(items: list[str], version: int) -> consumer.ConsumerGroupDescribeRequest:
        return consumer.ConsumerGroupDescribeRequest(
            group_ids=items, include_authorized_operations=rights
        )

    def read(answer: consumer.ConsumerGroupDescribeResponse) -> Results[str, GroupDescription]:
        return {row.group_id: _not_described(row) or _consumer(row) for row in answer.groups}

    read_any = reading(consumer.ConsumerGroupDescribeResponse, read)
    return _describing(ids, consumer.ConsumerGroupDescribeRequest, build, read_any)


def _consumer(row: consumer.DescribedGroup) -> GroupDescription:
    members = tuple(
        MemberDescription(
            each.member_id,
            each.client_id,
            each.client_host,
            assignment=_partitions(each.assignment),
            subscription=tuple(each.subscribed_topic_names),
            instance_id=each.instance_id,
            rack_id=each.rack_id,
            epoch=each.member_epoch,
            target_assignment=_partitions(each.target_assignment),
        )
        for each in row.members
    )
    return _planned(row, "consumer", row.assignor_name, members)


def _planned(
    row: consumer.DescribedGroup | share.DescribedGroup | streams.DescribedGroup,
    kind: str,
    assignor: str,
    members: tuple[MemberDescription, ...],
) -> GroupDescription:
    rights = operations_of(row.authorized_operations)
    return GroupDescription(
        row.group_id, kind, row.group_state, kind, assignor, members, row.group_epoch, rights
    )


def _partitions(assignment: consumer.Assignment | share.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )


def describe_share(ids: Sequence[str], rights: bool) -> Many[str, GroupDescription]:
    """Groups whose members take records of the same partitions (KIP-932)."""

    def build(items: list[str], version: int) -> share.ShareGroupDescribeRequest:
        return share.ShareGroupDescribeRequest(
            group_ids=items, include_authorized_operations=rights
        )

    def read(answer: share.ShareGroupDescribeResponse) -> Results[str, GroupDescription]:
        return {row.group_id: _not_described(row) or _share(row) for row in answer.groups}

    read_any = reading(share.ShareGroupDescribeResponse, read)
    return _describing(ids, share.ShareGroupDescribeRequest, build, read_any)


def _share(row: share.DescribedGroup) -> GroupDescription:
    members = tuple(
        MemberDescription(
            each.member_id,
            each.client_id,
            each.client_host,
            assignment=_partitions(each.assignment),
            subscription=tuple(each.subscribed_topic_names),
            rack_id=each.rack_id,
            epoch=each.member_epoch,
        )
        for each in row.members
    )
    return _planned(row, "share", row.assignor_name, members)


def describe_streams(ids: Sequence[str], rights: bool) -> Many[str, GroupDescription]:
    """Groups of Kafka Streams (KIP-1071); what their members have are tasks, not partitions."""

    def build(items: list[str], version: int) -> streams.StreamsGroupDescribeRequest:
        return streams.StreamsGroupDescribeRequest(
            group_ids=items, include_authorized_operations=rights
        )

    def read(answer: streams.StreamsGroupDescribeResponse) -> Results[str, GroupDescription]:
        return {row.group_id: _not_described(row) or _streams(row) for row in answer.groups}

    read_any = reading(streams.StreamsGroupDescribeResponse, read)
    return _describing(ids, streams.StreamsGroupDescribeRequest, build, read_any)


def _streams(row: streams.DescribedGroup) -> GroupDescription:
    members = tuple(
        MemberDescription(
            each.member_id,
            each.client_id,
            each.client_host,
            instance_id=each.instance_id,
            rack_id=each.rack_id,
            epoch=each.member_epoch,
        )
        for each in row.members
    )
    return _planned(row, "streams", "", members)


KINDS = (describe_classic, describe_consumer, describe_share, describe_streams)
"""How to ask for a group of each kind, the most common first."""
