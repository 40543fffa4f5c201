"""The groups of a fake cluster: both protocols, and the offsets that they commit."""

from __future__ import annotations

from itertools import count
from typing import TypeVar

from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.groups.classic import ClassicGroup
from kclient.testing.fake.groups.consumer import ConsumerGroup
from kclient.testing.fake.groups.offsets import CommittedOffsets

__all__ = ["ClassicGroup", "CommittedOffsets", "ConsumerGroup", "Groups"]

Group = ClassicGroup | ConsumerGroup
G = TypeVar("G", ClassicGroup, ConsumerGroup)


class Groups:
    """By group id; a group comes to be when it is first used, and speaks one protocol."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}
        self._offsets: dict[str, CommittedOffsets] = {}
        self._numbers = count(1)

    def new_member_id(self, client_id: str | None) -> str:
        """An id that no member has had; Kafka's end in random letters, ours in a number."""
        return f"{client_id or 'consumer'}-{next(self._numbers):08d}"

    def classic(self, group_id: str) -> ClassicGroup:
        """The group to join by JoinGroup. Raises a Refusal if it speaks the other protocol."""
        group = self._get(group_id, ClassicGroup)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id)
        return group

    def consumer(self, group_id: str, session_timeout: float) -> ConsumerGroup:
        """The group to join by ConsumerGroupHeartbeat, as ``classic`` does."""
        group = self._get(group_id, ConsumerGroup)
        if group is None:
            group = self._groups[group_id] = ConsumerGroup(group_id, session_timeout)
        return group

    def _get(self, group_id: str, kind: type[G]) -> G | None:
        """A group of one kind; one of the other kind makes way if it is empty."""
        if not group_id:
            raise Refusal(Code.INVALID_GROUP_ID)
        group = self._groups.get(group_id)
        if isinstance(group, kind):
            return group
        if group is not None and group.members:
            raise Refusal(
                Code.GROUP_ID_NOT_FOUND
                if kind is ConsumerGroup
                else Code.INCONSISTENT_GROUP_PROTOCOL
            )
        return None

    def find(self, group_id: str) -> Group | None:
        """The group with members, or that had some; None if there is none."""
        return self._groups.get(group_id)

    def offsets(self, group_id: str) -> CommittedOffsets:
        """What was committed for a group, with or without members."""
        return self._offsets.setdefault(group_id, CommittedOffsets())

    def names(self) -> list[str]:
        """All groups that have members or offsets."""
        return sorted({*self._groups, *self._offsets})

    def delete(self, group_id: str) -> None:
        """Forget a group and its offsets. Raises a Refusal if it has members, or is unknown."""
        if group_id not in self.names():
            raise Refusal(Code.GROUP_ID_NOT_FOUND)
        group = self._groups.get(group_id)
        if group is not None and group.members:
            raise Refusal(Code.NON_EMPTY_GROUP)
        self._groups.pop(group_id, None)
        self._offsets.pop(group_id, None)

    def tick(self, now: float) -> bool:
        """Let time pass for all groups; whether anything changed by it. ``now`` is in seconds."""
        return sum(group.tick(now) for group in self._groups.values()) > 0
