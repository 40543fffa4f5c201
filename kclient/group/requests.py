"""The requests of a member by the classic protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kclient.group.actions import Identity
from kclient.group.assignors import Assignor, MemberSubscription
from kclient.group.assignors.interface import NO_GENERATION
from kclient.group.assignors.metadata import PROTOCOL_TYPE, encode_subscription
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kclient.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kclient.types import TopicPartition

_LONGEST_REASON = 255


@dataclass(frozen=True)
class GroupSettings:
    """The options that matter to a membership, as in Kafka."""

    group_id: str
    assignors: tuple[Assignor, ...]
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    group_instance_id: str | None = None
    client_rack: str | None = None
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000

    @property
    def place(self) -> str:
        """What to call the member's place in messages."""
        member = f" as {self.group_instance_id!r}" if self.group_instance_id else ""
        return f"group {self.group_id!r}{member}"


@dataclass(frozen=True)
class Share:
    """What a member was given last, and in which generation."""

    partitions: tuple[TopicPartition, ...] | None = None
    generation: int = NO_GENERATION


def join_request(
    settings: GroupSettings,
    subscription: MemberSubscription,
    previous: Share,
    member_id: str,
    reason: str,
) -> JoinGroupRequest:
    """Ask to be admitted, offering each assignor with what it wants the leader to know."""
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequestProtocol(
                name=each.name,
                metadata=encode_subscription(
                    subscription._replace(
                        user_data=each.user_data(previous.partitions, previous.generation)
                    )
                ),
            )
            for each in settings.assignors
        ],
        reason=reason[:_LONGEST_REASON] or None,
    )


def sync_request(
    settings: GroupSettings, identity: Identity, protocol_name: str, shares: Mapping[str, bytes]
) -> SyncGroupRequest:
    """Hand out the shares, if this member leads, and ask for its own."""
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=identity.generation,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=one, assignment=share)
            for one, share in shares.items()
        ],
    )


def heartbeat_request(settings: GroupSettings, identity: Identity) -> HeartbeatRequest:
    """Say that the member is alive."""
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=identity.generation,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
    )
