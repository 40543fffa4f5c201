"""One request on its way through a fake broker."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from kclient.protocol import Message
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.journal import SeenRequest
from kclient.testing.fake.topics import NO_LEADER, Partition, Topic
from kclient.types import TopicPartition

if TYPE_CHECKING:
    from kclient.testing.fake.authentication import Authentication
    from kclient.testing.fake.state import ClusterState, Node


class HangUp(Exception):
    """Close the connection, after sending ``last_words``."""

    def __init__(self, last_words: bytes = b"") -> None:
        super().__init__(last_words)
        self.last_words = last_words


class Silence(Exception):
    """Send no answer, and go on with the next request."""


@dataclass
class Call:
    """A request, the broker it came to, and what the script wants to go wrong with it.

    All of it is used under the cluster's lock. ``is_open`` says whether the connection
    still stands.
    """

    state: ClusterState
    node: Node
    seen: SeenRequest
    authentication: Authentication
    is_open: Callable[[], bool]
    errors: list[tuple[int, TopicPartition | None]] = field(default_factory=list)
    replacement: Callable[[SeenRequest], Message | None] | None = None

    @property
    def version(self) -> int:
        """The version that the request came in."""
        return self.seen.version

    def wait_until(self, happened: Callable[[], bool], seconds: float) -> bool:
        """Let others work until something has happened; False if the time was up first.

        Raises HangUp if the connection ends meanwhile.
        """
        changed = self.state.changed
        changed.wait_for(lambda: not self.is_open() or happened(), max(seconds, 0))
        if not self.is_open():
            raise HangUp
        return happened()

    def sleep(self, seconds: float) -> None:
        """Let time pass. Raises HangUp if the connection ends meanwhile."""
        end = time.monotonic() + seconds
        self.wait_until(lambda: time.monotonic() >= end, seconds)

    def check(self, tp: TopicPartition | None = None) -> None:
        """Raise the Refusal that the script has for this request, or this partition of it."""
        for code, where in self.errors:
            if where is None or where == tp:
                raise Refusal(code)

    def topic(self, name: str, topic_id: UUID | None = None) -> Topic:
        """The topic by its name, or by ``topic_id`` if one is given; or a Refusal."""
        self.check()
        if topic_id is not None:
            return self.state.topic_by_id(topic_id)
        return self.state.topic(name)

    def partition(self, topic: Topic, index: int, *, follower: bool = False) -> Partition:
        """A partition that this broker leads, or at least holds if ``follower`` is enough.

        Raises the Refusal of the script, or the one for an unknown or foreign partition.
        """
        self.check(TopicPartition(topic.name, index))
        if not 0 <= index < len(topic.partitions):
            raise Refusal(Code.UNKNOWN_TOPIC_OR_PARTITION)
        partition = topic.partitions[index]
        if partition.leader == self.node.id:
            return partition
        if follower and partition.leader != NO_LEADER and self.node.id in partition.replicas:
            return partition
        raise Refusal(Code.NOT_LEADER_OR_FOLLOWER)

    def coordinate(self, key: str) -> None:
        """Check that this broker coordinates the group or transactional id ``key``."""
        self.check()
        if self.state.coordinator(key) != self.node.id:
            raise Refusal(Code.NOT_COORDINATOR)
