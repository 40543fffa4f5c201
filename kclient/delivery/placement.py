"""Where records go: a topic's partitions, its partitioner, and its sticky choice."""

from __future__ import annotations

from collections.abc import Sequence

from kclient.cluster import Metadata, TopicView
from kclient.config import ProducerOptions
from kclient.deadline import Deadline
from kclient.delivery.accumulator import Accumulator
from kclient.delivery.partitioner import StickyChoice, choose_partitioner
from kclient.errors import ConfigError, broker_error
from kclient.types import TopicPartition


class Topic:
    """One topic as the producer sees it; made anew when the cluster's view of it changes."""

    __slots__ = ("available", "count", "name", "partitioner", "sticky", "tps", "view")

    def __init__(self, view: TopicView, before: Topic | None, placement: Placement) -> None:
        self.name = view.name
        self.view = view
        self.count = max(view.partitions) + 1
        self.tps = [TopicPartition(view.name, number) for number in range(self.count)]
        self.available = [
            number for number, each in sorted(view.partitions.items()) if each.leader_id >= 0
        ]
        if before is None:
            self.partitioner = placement.make(view.name)
            self.sticky = StickyChoice(placement.batch_size)
        else:
            self.partitioner, self.sticky = before.partitioner, before.sticky
        if not 0 <= self.sticky.current < self.count:
            self.sticky.next(self.count, self.available)

    def checked(self, partition: int) -> int:
        """A partition that the user chose. Raises TopicNotFound if it does not exist."""
        if 0 <= partition < self.count:
            return partition
        raise broker_error(
            3,
            f"topic {self.name!r} has no partition {partition}: it has {self.count}, from 0",
            topic=self.name,
            partition=partition,
        )


class Placement:
    """The topics that a producer writes to."""

    def __init__(self, options: ProducerOptions, metadata: Metadata) -> None:
        self.make = choose_partitioner(options["partitioner"])
        self.batch_size = options["batch_size"]
        self._metadata = metadata
        self._block_seconds = options["max_block_ms"] / 1000
        self._topics: dict[str, Topic] = {}

    def known(self, name: str) -> Topic | None:
        """A topic, if it is as it was when last asked for."""
        topic = self._topics.get(name)
        if topic is not None and topic.view is self._metadata.view.topics.get(name):
            return topic
        return None

    def topic(self, name: str, deadline: Deadline | None = None) -> Topic:
        """A topic with its partitions, asked for at first use.

        Waits until the deadline at most, else ``max_block_ms``. Raises TopicNotFound,
        NotAuthorized, KafkaTimeout.
        """
        known = self._topics.get(name)
        view = self._metadata.view.topics.get(name)
        if known is not None and (known.view is view or view is None):
            return known  # one that has vanished may come back: its records wait for it
        if not isinstance(name, str) or not name:
            raise ConfigError(f"a topic is named by text, such as 'orders', not by {name!r}")
        if view is None or not view.partitions:
            limit = deadline or Deadline(max(self._block_seconds, 0.001))
            view = self._metadata.topic(name, limit, create=True)
        topic = self._topics[name] = Topic(view, known, self)
        return topic

    def note(self, topic: Topic, size: int, accumulator: Accumulator, *, ended: bool) -> None:
        """Count bytes for the sticky partition, and move on when it has had its share.

        The accumulator's lock must be held.
        """
        if topic.sticky.note(size, batch_ended=ended):
            self.move_on(topic, accumulator)

    def move_on(self, topic: Topic, accumulator: Accumulator) -> None:
        """Choose another partition for records without a key; the lock must be held."""
        available: Sequence[int] = topic.available
        topic.sticky.next(topic.count, available, accumulator.load(topic.name))
