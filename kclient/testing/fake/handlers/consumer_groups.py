"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups that the broker assigns (KIP-848)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import groupby

from kclient.protocol import Message
from kclient.protocol.messages import consumer_group_describe as describe
from kclient.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.groups.consumer import JOINING, ConsumerGroup, ConsumerMember, Heartbeat
from kclient.testing.fake.handlers.registry import code_of, handles
from kclient.types import TopicPartition


@handles(ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> Message:
    """Take a member's word, and tell it its epoch and, if that is news, its partitions."""
    call.coordinate(request.group_id)
    settings = call.state.settings
    group = call.state.groups.consumer(request.group_id, settings.session_timeout_ms / 1000)
    said = _said(call, request)
    topics = {name: len(topic.partitions) for name, topic in call.state.topics.items()}
    member = group.heartbeat(said, topics, time.monotonic())
    call.state.changed.notify_all()
    if member is None:
        return ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
    news = group.news_for(member)
    return ConsumerGroupHeartbeatResponse(
        member_id=member.id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        assignment=None if news is None else _assignment(call, news),
    )


def _said(call: Call, request: ConsumerGroupHeartbeatRequest) -> Heartbeat:
    is_joining = request.member_epoch == JOINING
    member_id = request.member_id
    if not member_id:
        if call.version >= 1 or not is_joining:
            raise Refusal(Code.INVALID_REQUEST)
        member_id = call.state.groups.new_member_id(call.seen.client_id)
    owned: list[TopicPartition] | None = None
    if request.topic_partitions is not None:
        names = {topic.id: name for name, topic in call.state.topics.items()}
        owned = [
            TopicPartition(names.get(topic.topic_id, ""), index)
            for topic in request.topic_partitions
            for index in topic.partitions
        ]
    timeout_ms = request.rebalance_timeout_ms
    return Heartbeat(
        member_id=member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        client_id=call.seen.client_id or "",
        rack=request.rack_id,
        rebalance_timeout=timeout_ms / 1000 if timeout_ms >= 0 else None,
        topics=request.subscribed_topic_names,
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=owned,
    )


def _assignment(call: Call, partitions: Iterable[TopicPartition]) -> Assignment:
    return Assignment(
        topic_partitions=[
            ResponseTopicPartitions(topic_id=call.state.topics[name].id, partitions=indexes)
            for name, indexes in _by_topic(call, partitions)
        ]
    )


def _by_topic(call: Call, partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    ordered = sorted(tp for tp in partitions if tp.topic in call.state.topics)
    return [
        (name, [tp.partition for tp in found])
        for name, found in groupby(ordered, key=lambda tp: tp.topic)
    ]


@handles(describe.ConsumerGroupDescribeRequest, itemised=True)
def consumer_group_describe(call: Call, request: describe.ConsumerGroupDescribeRequest) -> Message:
    """Tell epochs, members and what they have and shall have."""
    groups = [_describe(call, name) for name in request.group_ids]
    return describe.ConsumerGroupDescribeResponse(groups=groups)


def _describe(call: Call, name: str) -> describe.DescribedGroup:
    code = code_of(call.coordinate, name)
    group = call.state.groups.find(name)
    if code or not isinstance(group, ConsumerGroup):
        return describe.DescribedGroup(
            error_code=code or Code.GROUP_ID_NOT_FOUND, group_id=name, group_state="Dead"
        )
    return describe.DescribedGroup(
        group_id=name,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name="uniform",
        members=[_member(call, group, member) for member in group.members.values()],
    )


def _member(call: Call, group: ConsumerGroup, member: ConsumerMember) -> describe.Member:
    return describe.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host="/127.0.0.1",
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_described(call, member.assigned),
        target_assignment=_described(call, group.target.get(member.id, ())),
        member_type=1,
    )


def _described(call: Call, partitions: Iterable[TopicPartition]) -> describe.Assignment:
    topics = [
        describe.TopicPartitions(
            topic_id=call.state.topics[name].id, topic_name=name, partitions=indexes
        )
        for name, indexes in _by_topic(call, partitions)
    ]
    return describe.Assignment(topic_partitions=topics)
