"""What a membership wants done next, one thing at a time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from kclient.errors import KafkaError
from kclient.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kclient.protocol.messages.heartbeat import HeartbeatRequest
from kclient.protocol.messages.join_group import JoinGroupRequest
from kclient.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kclient.protocol.messages.sync_group import SyncGroupRequest
from kclient.types import TopicPartition

Partitions = tuple[TopicPartition, ...]


class Identity(NamedTuple):
    """Who a member is to its coordinator; commits and heartbeats carry it."""

    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True)
class FindCoordinator:
    """Ask any broker who coordinates the group."""


@dataclass(frozen=True)
class Join:
    """Send to the coordinator; it may take as long as the slowest member's rebalance."""

    request: JoinGroupRequest


@dataclass(frozen=True)
class Spread:
    """Say what partitions these topics have: it is for this member to spread them."""

    topics: frozenset[str]


@dataclass(frozen=True)
class Sync:
    """Send to the coordinator."""

    request: SyncGroupRequest


@dataclass(frozen=True)
class Beat:
    """Send to the coordinator, and hand the answer in with the identity."""

    request: HeartbeatRequest
    identity: Identity


@dataclass(frozen=True)
class ConsumerBeat:
    """Send to the coordinator, and hand the answer in with the request (KIP-848)."""

    request: ConsumerGroupHeartbeatRequest


@dataclass(frozen=True)
class NameTopics:
    """Look up the names of these topics, which the coordinator knows by id."""

    ids: frozenset[UUID]


@dataclass(frozen=True)
class Leave:
    """Send to the coordinator; its answer does not matter."""

    group_id: str
    member_id: str
    reason: str

    def request(self, version: int) -> LeaveGroupRequest:
        """The request for brokers that speak ``version``: it took one member up to 2."""
        if version < 3:
            return LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
        member = MemberIdentity(member_id=self.member_id, reason=self.reason)
        return LeaveGroupRequest(group_id=self.group_id, members=[member])


@dataclass(frozen=True)
class Ready:
    """Nothing: read the partitions owned."""

    generation: int


@dataclass(frozen=True)
class Wait:
    """Nothing before ``until``, in seconds of the caller's clock; infinity when out."""

    until: float


@dataclass(frozen=True)
class Revoke:
    """Commit and stop reading these, which are still ours; then call ``on_revoked``."""

    partitions: Partitions


@dataclass(frozen=True)
class Lose:
    """Stop reading these, which others may read already; then call ``on_lost``."""

    partitions: Partitions


@dataclass(frozen=True)
class Assign:
    """Start reading these, maybe none, besides those kept; then call ``on_assigned``."""

    partitions: Partitions


@dataclass(frozen=True)
class Fail:
    """Raise to the user."""

    error: KafkaError


Call = Revoke | Lose | Assign | Fail
"""What concerns the user; to be reported when it is done."""
Action = FindCoordinator | Join | Spread | Sync | Leave | Ready | Wait | Call
"""What the thread that polls has to do."""
Tick = FindCoordinator | Beat | Leave | Wait
"""What the thread that sends heartbeats has to do."""


class Backoff:
    """How long to wait after failures: twice as long after each, within limits (KIP-580)."""

    def __init__(self, least: float, most: float, rng: random.Random | None = None) -> None:
        """Limits are in seconds; the wait varies by a fifth, lest members move in step."""
        self.until = 0.0
        self._least = least
        self._most = most
        self._failures = 0
        self._rng = rng or random.Random()

    def extend(self, now: float) -> None:
        """Something failed."""
        wait = min(self._most, self._least * 2.0 ** min(self._failures, 30))
        self._failures += 1
        self.until = now + wait * self._rng.uniform(0.8, 1.2)

    def clear(self) -> None:
        """Something succeeded."""
        self._failures = 0
        self.until = 0.0
