"""What a consumer needs of its membership, whichever protocol the group speaks."""

from __future__ import annotations

from typing import Protocol

from kclient.cluster import ClusterView
from kclient.deadline import Deadline
from kclient.group.actions import Call, Identity
from kclient.group.subscription import Subscription

FAR = float("inf")


class Member(Protocol):
    """A member of a group. ``beat`` is for the heartbeat thread, the rest for the user's."""

    @property
    def identity(self) -> Identity:
        """Who commits; for any thread."""

    @property
    def is_known(self) -> bool:
        """Whether there is a membership to end."""

    def subscribe(self, subscription: Subscription, now: float) -> None:
        """Read these topics from now on."""

    def look(self, view: ClusterView) -> None:
        """The metadata have changed: maybe the group has to be told."""

    def polled(self, now: float) -> None:
        """The user is alive."""

    def step(self, now: float) -> Call | float:
        """What the user has to see through next; else when to look again. Never blocks."""

    def done(self, call: Call) -> None:
        """The user has seen it through."""

    def note_code(self, identity: Identity, code: int) -> None:
        """The coordinator answered a commit with this code; for any thread."""

    def beat(self) -> float:
        """Tell the coordinator what it has to hear; when to do so again. May block."""

    def unsubscribe(self) -> None:
        """Give everything up, by the calls of ``step``; then ``leave``."""

    def leave(self, deadline: Deadline) -> None:
        """Tell the coordinator, if that is possible in time. Raises nothing."""
