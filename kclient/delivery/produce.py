"""Produce requests and their answers, in every version; no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kclient.cluster.view import LeaderHint
from kclient.delivery.batch import Batch
from kclient.errors import UnsupportedVersion
from kclient.net.endpoint import Endpoint
from kclient.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kclient.types import TopicPartition

TOPIC_IDS = 13
"""The first version with topic ids instead of names (KIP-516)."""
_ZSTD = 7


class Outcome(NamedTuple):
    """What a broker said about one batch."""

    error_code: int
    base_offset: int
    log_append_time: int
    message: str


def magic_for(version: int) -> int:
    """The message format that a version of Produce carries."""
    return 2 if version >= 3 else 1 if version == 2 else 0


def fit(batch: Batch, version: int) -> None:
    """Bring a batch into the format that ``version`` carries.

    Raises UnsupportedVersion if it cannot: headers before 0.11, zstd before 2.1.
    """
    magic = magic_for(version)
    if (batch.compression or "").startswith("zstd") and version < _ZSTD:
        raise UnsupportedVersion(
            f"zstd needs Kafka 2.1 or newer, but the broker speaks Produce v{version}: choose "
            "another compression_type"
        )
    if batch.magic > magic:
        batch.convert(magic)


def request(
    batches: Sequence[Batch],
    version: int,
    topic_ids: Mapping[str, UUID],
    *,
    acks: int,
    timeout_ms: int,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One request for batches of different partitions."""
    topics: dict[str, TopicProduceData] = {}
    for batch in batches:
        name, partition = batch.tp
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = TopicProduceData(partition_data=[])
            if version >= TOPIC_IDS:
                topic.topic_id = topic_ids[name]
            else:
                topic.name = name
        topic.partition_data.append(PartitionProduceData(index=partition, records=batch.sealed()))
    made = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values()))
    if transactional_id is not None:
        made.transactional_id = transactional_id
    return made


def outcomes(
    answer: ProduceResponse, names: Mapping[UUID, str], version: int
) -> Iterator[tuple[TopicPartition, Outcome]]:
    """What the answer says about each partition; ``names`` are of the ids in the request."""
    for topic in answer.responses:
        name = names.get(topic.topic_id, "") if version >= TOPIC_IDS else topic.name
        for each in topic.partition_responses:
            yield (
                TopicPartition(name, each.index),
                Outcome(each.error_code, each.base_offset, each.log_append_time_ms, _message(each)),
            )


def hints(
    answer: ProduceResponse, names: Mapping[UUID, str], version: int
) -> tuple[list[LeaderHint], list[Endpoint]]:
    """New leaders that the answer names (KIP-951), and where they are."""
    found = [
        LeaderHint(
            TopicPartition(
                names.get(topic.topic_id, "") if version >= TOPIC_IDS else topic.name,
                each.index,
            ),
            each.current_leader.leader_id,
            each.current_leader.leader_epoch,
        )
        for topic in answer.responses
        for each in topic.partition_responses
        if each.current_leader.leader_id >= 0
    ]
    places = [
        Endpoint(each.node_id, each.host, each.port, each.rack) for each in answer.node_endpoints
    ]
    return found, places


def _message(answer: PartitionProduceResponse) -> str:
    details = [
        f"record {each.batch_index} of the batch: {each.batch_index_error_message}"
        for each in answer.record_errors
        if each.batch_index_error_message
    ]
    return "; ".join([*([answer.error_message] if answer.error_message else []), *details])
