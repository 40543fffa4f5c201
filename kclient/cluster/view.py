"""An immutable picture of the cluster, and how a newer answer changes it.

Answers come from different brokers and may be older than what is known: a partition's
leader only ever moves to a higher epoch, and a topic loses partitions only by being made
anew, under another id (KIP-320, KIP-516).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

from kclient.net.endpoint import Endpoint
from kclient.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kclient.protocol.wire import ZERO_UUID
from kclient.types import TopicPartition

_UNKNOWN_TOPIC = 3


class TopicView(NamedTuple):
    """A topic. ``partitions`` are by number; ``error_code`` is 0, or why there are none."""

    name: str
    topic_id: UUID
    partitions: Mapping[int, MetadataResponsePartition]
    error_code: int
    is_internal: bool


class LeaderHint(NamedTuple):
    """What a Produce or Fetch answer said of a partition's new leader (KIP-951)."""

    tp: TopicPartition
    leader: int
    epoch: int


@dataclass(frozen=True)
class ClusterView:
    """Brokers, topics, leaders and epochs as last told. See the module."""

    brokers: Mapping[int, Endpoint] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    names: Mapping[UUID, str] = field(default_factory=dict)
    """Topic names by id, where the broker has ids."""
    controller: int = -1
    cluster_id: str | None = None

    def partition(self, tp: TopicPartition) -> MetadataResponsePartition | None:
        """What is known of a partition, if anything."""
        topic = self.topics.get(tp.topic)
        return None if topic is None else topic.partitions.get(tp.partition)

    def leader(self, tp: TopicPartition) -> Endpoint | None:
        """The broker that leads a partition, None if there is none or it is not known."""
        partition = self.partition(tp)
        return None if partition is None else self.brokers.get(partition.leader_id)

    def merged(self, answer: MetadataResponse, *, is_full: bool) -> ClusterView:
        """The view after ``answer``, which is about all topics or only some."""
        brokers = {
            each.node_id: Endpoint(each.node_id, each.host, each.port, each.rack)
            for each in answer.brokers
        }
        topics = {} if is_full else dict(self.topics)
        names = {} if is_full else dict(self.names)
        for told in answer.topics:
            if told.name is None:  # asked by an id that no topic has any more
                names.pop(told.topic_id, None)
                continue
            known = self.topics.get(told.name)
            topic = _newer(known, told)
            if known is not None and known.topic_id != topic.topic_id:
                names.pop(known.topic_id, None)
            topics[topic.name] = topic
            if topic.topic_id != ZERO_UUID:
                names[topic.topic_id] = topic.name
        return ClusterView(
            brokers=brokers or self.brokers,  # a fresh 0.8 lists none until it has a topic
            topics=topics,
            names=names,
            controller=answer.controller_id,
            cluster_id=answer.cluster_id or self.cluster_id,
        )

    def hinted(
        self, hints: Iterable[LeaderHint], endpoints: Iterable[Endpoint] = ()
    ) -> ClusterView:
        """The view after leader hints, with the addresses that came along."""
        brokers = {**self.brokers, **{each.node: each for each in endpoints}}
        moved: dict[str, dict[int, MetadataResponsePartition]] = {}
        for tp, leader, epoch in hints:
            known = moved.get(tp.topic, {}).get(tp.partition) or self.partition(tp)
            if known is not None and epoch > known.leader_epoch:
                moved.setdefault(tp.topic, {})[tp.partition] = _led_by(known, leader, epoch)
        topics = dict(self.topics)
        for name, partitions in moved.items():
            topic = topics[name]
            topics[name] = topic._replace(partitions={**topic.partitions, **partitions})
        return replace(self, brokers=brokers, topics=topics)

    def without(self, topic: str) -> ClusterView:
        """The view without a topic."""
        topics = {name: view for name, view in self.topics.items() if name != topic}
        names = {each: name for each, name in self.names.items() if name != topic}
        return replace(self, topics=topics, names=names)


def _led_by(
    partition: MetadataResponsePartition, leader: int, epoch: int
) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=partition.partition_index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=partition.replica_nodes,
        isr_nodes=partition.isr_nodes,
        offline_replicas=partition.offline_replicas,
    )


def _newer(known: TopicView | None, told: MetadataResponseTopic) -> TopicView:
    name = told.name or ""
    partitions = {each.partition_index: each for each in told.partitions}
    if known is not None and _is_same(known, told):
        if told.error_code == _UNKNOWN_TOPIC and known.topic_id == ZERO_UUID:
            # Deleted, perhaps: without ids, nothing else tells the next one of this name apart.
            return known._replace(partitions={}, error_code=told.error_code)
        if told.error_code:  # not now, but it was there: leaders stay until others are told
            return known._replace(error_code=told.error_code)
        for number, old in known.partitions.items():
            new = partitions.get(number)
            if new is None or -1 < new.leader_epoch < old.leader_epoch:
                partitions[number] = old
    return TopicView(name, told.topic_id, partitions, told.error_code, told.is_internal)


def _is_same(known: TopicView, told: MetadataResponseTopic) -> bool:
    """Whether both are the same incarnation of a topic; brokers without ids cannot tell."""
    return known.topic_id == told.topic_id or (bool(told.error_code) and told.topic_id == ZERO_UUID)
