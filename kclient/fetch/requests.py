"""Fetch requests and answers, in every version; no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from uuid import UUID

from kclient.cluster.view import LeaderHint
from kclient.config import ConsumerOptions
from kclient.fetch.session import Ask, Want
from kclient.net.endpoint import Endpoint
from kclient.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kclient.types import TopicPartition

TOPIC_IDS = 13
"""The first version with topic ids instead of names (KIP-516)."""
SESSIONS = 7
"""The first version with sessions (KIP-227)."""
CURRENT_EPOCHS = 9
"""The first version in which the broker compares leader epochs (KIP-320)."""
DIVERGING_EPOCHS = 12
"""The first version in which the broker checks for truncation itself (KIP-595)."""
BATCHES_WHOLE = 3
"""The first version that returns a batch larger than the limit, rather than a piece of it."""


def request(ask: Ask, version: int, options: ConsumerOptions) -> FetchRequest:
    """The request for what a session asks."""
    topics: dict[str, FetchTopic] = {}
    for tp, want in ask.wants.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = FetchTopic(partitions=[])
            if version >= TOPIC_IDS:
                topic.topic_id = want.topic_id
            else:
                topic.topic = tp.topic
        topic.partitions.append(_partition(tp.partition, want, version))
    made = FetchRequest(
        max_wait_ms=options["fetch_max_wait_ms"],
        min_bytes=options["fetch_min_bytes"],
        max_bytes=options["fetch_max_bytes"],
        isolation_level=int(options["isolation_level"] == "read_committed"),
        session_id=ask.session_id,
        session_epoch=ask.session_epoch,
        topics=list(topics.values()),
        rack_id=options["client_rack"],
    )
    if version >= SESSIONS:
        made.forgotten_topics_data = _forgotten(ask, version)
    return made


def _partition(number: int, want: Want, version: int) -> FetchPartition:
    made = FetchPartition(
        partition=number,
        fetch_offset=want.offset,
        current_leader_epoch=want.leader_epoch,
        partition_max_bytes=want.max_bytes,
    )
    if version >= DIVERGING_EPOCHS:
        made.last_fetched_epoch = want.last_epoch
    return made


def _forgotten(ask: Ask, version: int) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for tp, want in ask.forget.items():
        topic = topics.get(tp.topic)
        if topic is None:
            topic = topics[tp.topic] = ForgottenTopic(partitions=[])
            if version >= TOPIC_IDS:
                topic.topic_id = want.topic_id
            else:
                topic.topic = tp.topic
        topic.partitions.append(tp.partition)
    return list(topics.values())


def partitions(
    answer: FetchResponse, version: int, names: Mapping[UUID, str]
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """What the answer says of each partition."""
    for topic in answer.responses:
        name = names.get(topic.topic_id, "") if version >= TOPIC_IDS else topic.topic
        for data in topic.partitions:
            yield TopicPartition(name, data.partition_index), data


def hints(
    answer: FetchResponse, version: int, names: Mapping[UUID, str]
) -> tuple[list[LeaderHint], list[Endpoint]]:
    """New leaders that the answer names (KIP-951), and where they are."""
    if version < DIVERGING_EPOCHS:
        return [], []
    found = [
        LeaderHint(tp, data.current_leader.leader_id, data.current_leader.leader_epoch)
        for tp, data in partitions(answer, version, names)
        if data.current_leader.leader_id >= 0
    ]
    places = [
        Endpoint(each.node_id, each.host, each.port, each.rack) for each in answer.node_endpoints
    ]
    return found, places
