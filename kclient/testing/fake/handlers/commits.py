"""OffsetCommit, OffsetFetch, and the groups as an administrator sees them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from uuid import UUID

from kclient.protocol import Message
from kclient.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from kclient.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kclient.protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kclient.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kclient.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.groups import ClassicGroup, ConsumerGroup
from kclient.testing.fake.groups.offsets import Committed
from kclient.testing.fake.handlers.registry import code_of, handles
from kclient.types import TopicPartition

_NOTHING = Committed(-1)


@handles(OffsetCommitRequest, itemised=True)
def offset_commit(call: Call, request: OffsetCommitRequest) -> Message:
    """Store offsets, if the member is who it says."""
    code = code_of(_check_member, call, request)
    return OffsetCommitResponse(topics=[_commit(call, request, t, code) for t in request.topics])


def _check_member(call: Call, request: OffsetCommitRequest) -> None:
    call.coordinate(request.group_id)
    if not request.group_id:
        raise Refusal(Code.INVALID_GROUP_ID)
    generation = request.generation_id_or_member_epoch
    group = call.state.groups.find(request.group_id)
    if group is None and generation >= 0:
        is_new = call.version >= 9
        raise Refusal(Code.GROUP_ID_NOT_FOUND if is_new else Code.ILLEGAL_GENERATION)
    if group is None:
        group = call.state.groups.classic(request.group_id)
    group.check_commit(request.member_id, request.group_instance_id, generation, time.monotonic())


def _commit(
    call: Call, request: OffsetCommitRequest, topic: OffsetCommitRequestTopic, code: int
) -> OffsetCommitResponseTopic:
    name = ""
    try:
        name = call.topic(topic.name, topic.topic_id if call.version >= 10 else None).name
    except Refusal as refusal:
        code = code or refusal.code
    partitions = [
        OffsetCommitResponsePartition(
            partition_index=item.partition_index,
            error_code=code or code_of(_commit_one, call, request.group_id, name, item),
        )
        for item in topic.partitions
    ]
    return OffsetCommitResponseTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


def _commit_one(call: Call, group_id: str, topic: str, item: OffsetCommitRequestPartition) -> None:
    tp = TopicPartition(topic, item.partition_index)
    call.check(tp)
    committed = Committed(
        item.committed_offset, item.committed_leader_epoch, item.committed_metadata or ""
    )
    call.state.groups.offsets(group_id).commit(tp, committed)


@handles(OffsetFetchRequest, itemised=True)
def offset_fetch(call: Call, request: OffsetFetchRequest) -> Message:
    """Tell what is committed: of one group, since v8 of several (KIP-709)."""
    stable = request.require_stable
    if call.version >= 8:
        return OffsetFetchResponse(
            groups=[_fetch_group(call, group, stable) for group in request.groups]
        )
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    wanted = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    return _as_before_v8(call, _fetch_group(call, wanted, stable))


def _as_before_v8(call: Call, group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """One group's answer in the old form; v0 and v1 have errors at the partitions only."""
    spread = group.error_code if call.version < 2 else 0
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=item.partition_index,
                    committed_offset=item.committed_offset,
                    committed_leader_epoch=item.committed_leader_epoch,
                    metadata=item.metadata,
                    error_code=spread or item.error_code,
                )
                for item in topic.partitions
            ],
        )
        for topic in group.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def _fetch_group(
    call: Call, wanted: OffsetFetchRequestGroup, stable: bool
) -> OffsetFetchResponseGroup:
    code = code_of(_check_reader, call, wanted)
    topics = wanted.topics
    if topics is None:
        committed = call.state.groups.offsets(wanted.group_id).committed if not code else {}
        topics = _by_topic(call, committed)
    return OffsetFetchResponseGroup(
        group_id=wanted.group_id,
        topics=[_fetch_topic(call, wanted.group_id, topic, stable, code) for topic in topics],
        error_code=code,
    )


def _check_reader(call: Call, wanted: OffsetFetchRequestGroup) -> None:
    call.coordinate(wanted.group_id)
    group = call.state.groups.find(wanted.group_id)
    if isinstance(group, ConsumerGroup) and wanted.member_id and wanted.member_epoch >= 0:
        group.check_commit(wanted.member_id, None, wanted.member_epoch, time.monotonic())


def _by_topic(call: Call, committed: Iterable[TopicPartition]) -> list[OffsetFetchRequestTopics]:
    indexes: dict[str, list[int]] = {}
    for tp in sorted(committed):
        indexes.setdefault(tp.topic, []).append(tp.partition)
    topics = call.state.topics
    return [
        OffsetFetchRequestTopics(
            name=name,
            topic_id=topics[name].id if name in topics else UUID(int=0),
            partition_indexes=found,
        )
        for name, found in indexes.items()
    ]


def _fetch_topic(
    call: Call, group_id: str, topic: OffsetFetchRequestTopics, stable: bool, code: int
) -> OffsetFetchResponseTopics:
    name = topic.name
    if call.version >= 10:
        try:
            name = call.topic("", topic.topic_id).name
        except Refusal as refusal:
            code = code or refusal.code
    partitions = [
        _fetch_partition(call, group_id, TopicPartition(name, index), stable, code)
        for index in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=partitions)


def _fetch_partition(
    call: Call, group_id: str, tp: TopicPartition, stable: bool, code: int
) -> OffsetFetchResponsePartitions:
    found = None
    if not code:
        try:
            call.check(tp)
            found = call.state.groups.offsets(group_id).get(tp, require_stable=stable)
        except Refusal as refusal:
            code = refusal.code
    found = found or _NOTHING
    return OffsetFetchResponsePartitions(
        partition_index=tp.partition,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=code,
    )


@handles(ListGroupsRequest)
def list_groups(call: Call, request: ListGroupsRequest) -> Message:
    """List the groups that this broker coordinates."""
    found = []
    for name in call.state.groups.names():
        group = call.state.groups.find(name)
        state = group.state_name if group is not None else "Empty"
        kind = "consumer" if isinstance(group, ConsumerGroup) else "classic"
        protocol = group.protocol_type if group is not None else ""
        if (
            call.state.coordinator(name) == call.node.id
            and state in (request.states_filter or [state])
            and kind in (request.types_filter or [kind])
        ):
            listed = ListedGroup(
                group_id=name, protocol_type=protocol, group_state=state, group_type=kind
            )
            found.append(listed)
    return ListGroupsResponse(groups=found)


@handles(DescribeGroupsRequest, itemised=True)
def describe_groups(call: Call, request: DescribeGroupsRequest) -> Message:
    """Tell state and members of classic groups; an unknown one is dead."""
    return DescribeGroupsResponse(groups=[_describe(call, name) for name in request.groups])


def _describe(call: Call, name: str) -> DescribedGroup:
    code = code_of(call.coordinate, name)
    group = call.state.groups.find(name)
    if code or not isinstance(group, ClassicGroup):
        missing = 0 if call.version < 6 else Code.GROUP_ID_NOT_FOUND
        return DescribedGroup(error_code=code or missing, group_id=name, group_state="Dead")
    members = [
        DescribedGroupMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host="/127.0.0.1",
            member_metadata=member.protocols.get(group.protocol, b""),
            member_assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    return DescribedGroup(
        group_id=name,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=members,
    )


@handles(DeleteGroupsRequest, itemised=True)
def delete_groups(call: Call, request: DeleteGroupsRequest) -> Message:
    """Forget groups that have no members."""
    results = [
        DeletableGroupResult(group_id=name, error_code=code_of(_delete, call, name))
        for name in request.groups_names
    ]
    return DeleteGroupsResponse(results=results)


def _delete(call: Call, name: str) -> None:
    call.coordinate(name)
    call.state.groups.delete(name)
