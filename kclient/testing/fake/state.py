"""What the fake brokers share: the cluster as its controller and coordinators know it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Condition
from uuid import UUID
from zlib import crc32

from kclient.errors import ConfigError, ProtocolError
from kclient.records import ControlType
from kclient.testing.fake.codes import Code, Refusal
from kclient.testing.fake.fetch_sessions import FetchSessions
from kclient.testing.fake.groups import Groups
from kclient.testing.fake.journal import Journal
from kclient.testing.fake.script import Script
from kclient.testing.fake.topics import NO_LEADER, Partition, Topic
from kclient.testing.fake.transactions import ProducerIdentity, Transactions
from kclient.types import TopicPartition


@dataclass(frozen=True)
class Settings:
    """How the cluster behaves; times in ms. See ``FakeCluster`` for what each means."""

    cluster_id: str
    replication: int
    min_insync_replicas: int
    max_message_bytes: int
    auto_create_topics: bool
    transaction_version: int
    sasl: bool | Mapping[str, str]
    session_lifetime_ms: int
    heartbeat_interval_ms: int
    session_timeout_ms: int

    def __repr__(self) -> str:
        return f"Settings(cluster_id={self.cluster_id!r})"  # sasl holds passwords


@dataclass
class Node:
    """A broker. ``versions`` maps an API key to the lowest and highest version it speaks."""

    id: int
    host: str
    port: int
    rack: str | None
    versions: dict[int, tuple[int, int]]
    is_silent_on_unknown: bool = False
    is_alive: bool = False
    is_paused: bool = False
    fetch_sessions: FetchSessions = field(default_factory=FetchSessions)


class ClusterState:
    """Brokers, topics, coordinators. ``changed`` guards it all, and is notified of changes."""

    def __init__(self, settings: Settings, nodes: Mapping[int, Node]) -> None:
        self.settings = settings
        self.nodes = nodes
        self.changed = Condition()
        self.topics: dict[str, Topic] = {}
        self.journal = Journal(self.changed)
        self.script = Script(self.changed)
        self.groups = Groups()
        self.transactions = Transactions(self)
        self.malformed: list[ProtocolError] = []
        self._topics_made = 0
        self._moved_coordinators: dict[str, int] = {}

    @property
    def alive(self) -> list[int]:
        """The brokers that are up, in order."""
        return [node.id for node in self.nodes.values() if node.is_alive]

    @property
    def controller(self) -> int:
        """The lowest broker that is up, -1 if none is."""
        return min(self.alive, default=NO_LEADER)

    def node(self, node_id: int) -> Node:
        """A broker by its number. Raises ConfigError if there is none."""
        try:
            return self.nodes[node_id]
        except KeyError:
            raise ConfigError(
                f"the fake cluster has no broker {node_id}, only {sorted(self.nodes)}"
            ) from None

    def set_alive(self, node_id: int, is_alive: bool) -> None:
        """Note that a broker came up or went down; leaders are elected anew."""
        with self.changed:
            node = self.node(node_id)
            node.is_alive = is_alive
            node.is_paused = False
            node.fetch_sessions = FetchSessions()
            self._elect()
            self.changed.notify_all()

    def _elect(self) -> None:
        for topic in self.topics.values():
            for partition in topic.partitions:
                partition.elect(self.alive)

    # --- topics ---------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int,
        *,
        replication: int | None = None,
        configs: Mapping[str, str] | None = None,
    ) -> Topic:
        """Make a topic; replicas and leaders go round the brokers. Raises a Refusal."""
        replication = self.settings.replication if replication is None else replication
        if name in self.topics:
            raise Refusal(Code.TOPIC_ALREADY_EXISTS)
        if not is_topic_name(name):
            raise Refusal(Code.INVALID_TOPIC_EXCEPTION)
        if partitions < 1:
            raise Refusal(Code.INVALID_PARTITIONS)
        if not 1 <= replication <= len(self.nodes):
            raise Refusal(Code.INVALID_REPLICATION_FACTOR)
        self._topics_made += 1
        # Kafka's ids are random; these only have to differ, and be the same in every run.
        topic = Topic(name, UUID(int=0xFA4E << 112 | self._topics_made), [], dict(configs or {}))
        topic.add_partitions(partitions, list(self.nodes), replication)
        self.topics[name] = topic
        self._elect()
        self.changed.notify_all()
        return topic

    def grow_topic(self, name: str, count: int) -> None:
        """Have ``count`` partitions instead of fewer. Raises a Refusal."""
        topic = self.topic(name)
        if count <= len(topic.partitions):
            raise Refusal(Code.INVALID_PARTITIONS)
        replication = len(topic.partitions[0].replicas)
        topic.add_partitions(count - len(topic.partitions), list(self.nodes), replication)
        self._elect()
        self.changed.notify_all()

    def delete_topic(self, name: str) -> Topic:
        """Remove a topic and its records. Raises a Refusal."""
        topic = self.topic(name)
        del self.topics[name]
        self.changed.notify_all()
        return topic

    def topic(self, name: str) -> Topic:
        """A topic by name, or the Refusal that there is none."""
        if name not in self.topics:
            raise Refusal(Code.UNKNOWN_TOPIC_OR_PARTITION)
        return self.topics[name]

    def topic_by_id(self, topic_id: UUID) -> Topic:
        """A topic by its id, or the Refusal that there is none."""
        for topic in self.topics.values():
            if topic.id == topic_id:
                return topic
        raise Refusal(Code.UNKNOWN_TOPIC_ID)

    def partition(self, tp: TopicPartition) -> Partition:
        """A partition, for the test's own hands. Raises ConfigError if there is none."""
        topic = self.topics.get(tp.topic)
        if topic is None or not 0 <= tp.partition < len(topic.partitions):
            raise ConfigError(f"the fake cluster has no partition {tp.topic}[{tp.partition}]")
        return topic.partitions[tp.partition]

    def move_leader(self, tp: TopicPartition, node_id: int) -> None:
        """Let another broker lead, in a new epoch; it becomes a replica if it was none."""
        node = self.node(node_id)
        with self.changed:
            partition = self.partition(tp)
            if node.id not in partition.replicas:
                partition.replicas.append(node.id)
            partition.lead_by(node.id)
            self.changed.notify_all()

    # --- coordinators -----------------------------------------------------------------------

    def coordinator(self, key: str) -> int:
        """The broker that coordinates a group or transactional id; -1 if none is up."""
        moved = self._moved_coordinators.get(key)
        if moved is not None and self.nodes[moved].is_alive:
            return moved
        alive = self.alive
        return alive[crc32(key.encode()) % len(alive)] if alive else NO_LEADER

    def move_coordinator(self, key: str, node_id: int) -> None:
        """Let another broker coordinate ``key``; it knows all that the old one did."""
        with self.changed:
            self._moved_coordinators[key] = self.node(node_id).id
            self.changed.notify_all()

    # --- transactions and time ----------------------------------------------------------------

    def mark(self, tp: TopicPartition, producer: ProducerIdentity, kind: ControlType) -> None:
        """Write a transaction's marker into a log; a deleted topic needs none."""
        topic = self.topics.get(tp.topic)
        if topic is not None:
            partition = topic.partitions[tp.partition]
            partition.log.append_marker(*producer, kind, partition.leader_epoch)

    def settle(self, group_id: str, producer_id: int, *, commit: bool) -> None:
        """Take or throw away the offsets that a group got in a transaction."""
        self.groups.offsets(group_id).end_transaction(producer_id, commit=commit)

    def tick(self) -> None:
        """Do what time makes due: silent members leave, late transactions are aborted."""
        now = time.monotonic()
        if self.groups.tick(now) | self.transactions.tick(now):
            self.changed.notify_all()


def is_topic_name(name: str) -> bool:
    """Whether Kafka allows a topic of this name."""
    legal = all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name)
    return legal and 0 < len(name) <= 249 and name not in (".", "..")
