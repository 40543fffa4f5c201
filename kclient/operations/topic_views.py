"""Topics as they are: listed, and described with their partitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from kclient.cluster.call import Call
from kclient.cluster.target import ANY
from kclient.errors import KafkaError
from kclient.operations.given import check_topic, known_id, need, operations_of, several
from kclient.operations.many import CallFor, Many, Results, failed, reading
from kclient.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

_UNKNOWN_TOPIC = 3


@dataclass(frozen=True)
class TopicListing:
    """A topic of the cluster."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    num_partitions: int


@dataclass(frozen=True)
class PartitionDescription:
    """A partition: broker ids of its replicas. ``leader`` is None while there is none."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    leader_epoch: int | None = None


@dataclass(frozen=True)
class TopicDescription:
    """A topic and its partitions, by number.

    ``authorized_operations`` is what this user may do, None unless it was asked for.
    """

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[str] | None = None


def listing() -> Call[dict[str, TopicListing]]:
    """Every topic that this user may see."""

    def build(version: int) -> MetadataRequest:
        return _metadata(None, version)

    def read(answer: MetadataResponse) -> dict[str, TopicListing]:
        return {
            row.name: TopicListing(
                row.name, known_id(row.topic_id), row.is_internal, len(row.partitions)
            )
            for row in answer.topics
            if row.name is not None
        }

    return Call(MetadataRequest, build, reading(MetadataResponse, read))


def _metadata(names: Sequence[str] | None, version: int, rights: bool = False) -> MetadataRequest:
    # Before v4, asking for a topic by name creates it where brokers are configured so: they are
    # asked for all instead, which is an empty list in v0.
    if version < 4:
        return MetadataRequest(topics=[] if version == 0 else None)
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    if rights:
        need(version, 8, "tell what this user may do", "2.3")
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=rights,
    )


def describe(
    given: Iterable[str], *, rights: bool = False, fresh: Collection[str] = ()
) -> Many[str, TopicDescription]:
    """Partitions, leaders and replicas of topics.

    Those that are ``fresh`` may not have reached the broker that is asked: it is asked again.
    """
    names = [check_topic(name) for name in several(given, "topic names")]

    def call(items: Sequence[str], timeout_ms: int) -> CallFor[str, TopicDescription]:
        def build(version: int) -> MetadataRequest:
            return _metadata(items, version, rights)

        def read(answer: MetadataResponse) -> Results[str, TopicDescription]:
            rows = {row.name: row for row in answer.topics}
            return {name: _described(name, rows.get(name), name in fresh) for name in items}

        return Call(MetadataRequest, build, reading(MetadataResponse, read))

    return Many("describing topics", names, call, lambda name: ANY)


def _described(
    name: str, row: MetadataResponseTopic | None, is_fresh: bool
) -> TopicDescription | KafkaError:
    code = _UNKNOWN_TOPIC if row is None else row.error_code
    if row is None or code:
        what = f"topic {name!r} was not described"
        return failed(code, what, again=(_UNKNOWN_TOPIC,) if is_fresh else (), topic=name)
    rows = sorted(row.partitions, key=lambda each: each.partition_index)
    return TopicDescription(
        name,
        known_id(row.topic_id),
        row.is_internal,
        tuple(
            PartitionDescription(
                each.partition_index,
                each.leader_id if each.leader_id >= 0 else None,
                tuple(each.replica_nodes),
                tuple(each.isr_nodes),
                tuple(each.offline_replicas),
                each.leader_epoch if each.leader_epoch >= 0 else None,
            )
            for each in rows
        ),
        operations_of(row.topic_authorized_operations),
    )
