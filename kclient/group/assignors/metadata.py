"""What members and the leader write into JoinGroup and SyncGroup: versioned, opaque to brokers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import TypeVar

from kclient.errors import ProtocolError
from kclient.group.assignors.interface import MemberSubscription
from kclient.protocol.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    SubscriptionTopicPartition,
)
from kclient.protocol.messages.join_group import JoinGroupResponseMember
from kclient.protocol.wire import Buffer, Message
from kclient.types import TopicPartition

PROTOCOL_TYPE = "consumer"
log = logging.getLogger(__name__)
_VERSION = Struct(">h")
M = TypeVar("M", bound=Message)


def partitions_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers of each topic, in the order given."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped


def encode_subscription(member: MemberSubscription) -> bytes:
    """A member's metadata in a JoinGroup request. Its instance id travels elsewhere."""
    owned = partitions_by_topic(sorted(member.owned))
    return _encode(
        ConsumerProtocolSubscription(
            topics=sorted(member.topics),
            user_data=member.user_data,
            owned_partitions=[
                SubscriptionTopicPartition(topic=topic, partitions=numbers)
                for topic, numbers in owned.items()
            ],
            generation_id=member.generation,
            rack_id=member.rack,
        )
    )


def decode_subscription(data: Buffer, instance_id: str | None = None) -> MemberSubscription:
    """What a member said of itself. Raises ProtocolError when it cannot be read."""
    found = _decode(ConsumerProtocolSubscription, data)
    return MemberSubscription(
        topics=tuple(dict.fromkeys(found.topics)),
        owned=tuple(
            TopicPartition(each.topic, number)
            for each in found.owned_partitions
            for number in each.partitions
        ),
        generation=found.generation_id,
        rack=found.rack_id or None,
        user_data=None if found.user_data is None else bytes(found.user_data),
        instance_id=instance_id,
    )


def decode_members(joined: Iterable[JoinGroupResponseMember]) -> dict[str, MemberSubscription]:
    """What all members said, for the leader, by member id.

    One whose metadata cannot be read counts as subscribed to nothing: the others must not
    go without partitions for its sake.
    """
    members = {}
    for each in joined:
        try:
            found = decode_subscription(each.metadata, each.group_instance_id)
        except ProtocolError as error:
            log.warning(
                "member %s gets no partitions, its metadata is bad: %s", each.member_id, error
            )
            found = MemberSubscription((), instance_id=each.group_instance_id)
        members[each.member_id] = found
    return members


def encode_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """A member's share in a SyncGroup request."""
    return _encode(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                AssignmentTopicPartition(topic=topic, partitions=numbers)
                for topic, numbers in partitions_by_topic(partitions).items()
            ]
        )
    )


def decode_assignment(data: Buffer) -> tuple[TopicPartition, ...]:
    """The share that the leader sent; none when it sent nothing.

    Raises ProtocolError when it cannot be read.
    """
    if not data:
        return ()  # a leader that does not know the member, or a broker without one
    found = _decode(ConsumerProtocolAssignment, data)
    return tuple(
        TopicPartition(each.topic, number)
        for each in found.assigned_partitions
        for number in each.partitions
    )


def _encode(message: Message) -> bytes:
    version = message.VERSIONS[1]
    return _VERSION.pack(version) + message.encode(version)


def _decode(cls: type[M], data: Buffer) -> M:
    if len(data) < _VERSION.size:
        raise ProtocolError(f"{cls.__name__} of {len(data)} bytes has no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise ProtocolError(f"{cls.__name__} has version {version}")
    # Newer versions only add fields at the end, which are not read here.
    return cls.decode_at(data, _VERSION.size, min(version, cls.VERSIONS[1]))[0]
