"""A consumer that subscribes without a group: all partitions of its topics are its own."""

from __future__ import annotations

from kclient.cluster import ClusterView, Metadata
from kclient.deadline import Deadline
from kclient.group.actions import Assign, Call, Identity, Revoke
from kclient.group.member import FAR
from kclient.group.subscription import Subscription
from kclient.types import TopicPartition

NOBODY = Identity("", -1)


class Alone:
    """See ``Member``: there is no coordinator, the metadata decide."""

    def __init__(self, metadata: Metadata) -> None:
        self.identity = NOBODY
        self.is_known = False
        self._metadata = metadata
        self._subscription = Subscription()
        self._owned: set[TopicPartition] = set()
        self._seen: object = None

    def subscribe(self, subscription: Subscription, now: float) -> None:
        """Read these topics from now on."""
        self._subscription = subscription
        self._seen = None

    def look(self, view: ClusterView) -> None:
        """``step`` looks by itself."""

    def polled(self, now: float) -> None:
        """Nobody minds."""

    def step(self, now: float) -> Call | float:
        """Partitions that have come or gone."""
        view = self._metadata.view
        if view is self._seen:
            return FAR
        wanted = {
            TopicPartition(name, number)
            for name in self._subscription.topics
            if name in view.topics
            for number in view.topics[name].partitions
        }
        gone = {tp for tp in self._owned if tp.topic not in self._subscription.topics}
        if gone:
            return Revoke(tuple(sorted(gone)))
        if added := wanted - self._owned:
            return Assign(tuple(sorted(added)))
        self._seen = view
        return FAR

    def done(self, call: Call) -> None:
        """The user has seen it through."""
        if isinstance(call, Assign):
            self._owned.update(call.partitions)
        elif isinstance(call, Revoke):
            self._owned.difference_update(call.partitions)

    def note_code(self, identity: Identity, code: int) -> None:
        """Nothing is committed."""

    def beat(self) -> float:
        """Nobody listens."""
        return FAR

    def unsubscribe(self) -> None:
        """Give everything up."""
        self.subscribe(Subscription(), 0.0)

    def leave(self, deadline: Deadline) -> None:
        """There is nobody to tell."""
