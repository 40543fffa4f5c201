"""The quorum of controllers that keeps a KRaft cluster's metadata (KIP-595)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from kclient.cluster.call import Call
from kclient.operations.given import known_id
from kclient.operations.many import CONTROLLER_CODES, LEADER_CODES, check, reading
from kclient.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)

_TOPIC = "__cluster_metadata"
_AGAIN = CONTROLLER_CODES | LEADER_CODES


@dataclass(frozen=True)
class QuorumReplica:
    """A copy of the metadata log, and how far it is; times are ms since the epoch.

    Times are told since Kafka 3.4, the directory since 3.9.
    """

    node: int
    log_end_offset: int
    last_fetch_timestamp: int | None = None
    last_caught_up_timestamp: int | None = None
    directory_id: UUID | None = None


@dataclass(frozen=True)
class Quorum:
    """Voters elect the ``leader``; observers only follow. ``endpoints`` are ``host:port``."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, Mapping[str, str]]
    """By node and listener; told since Kafka 3.9."""


def describe() -> Call[Quorum]:
    """The state of the quorum (since Kafka 3.3, on KRaft)."""

    def build(version: int) -> DescribeQuorumRequest:
        partition = RequestPartitionData(partition_index=0)
        return DescribeQuorumRequest(
            topics=[RequestTopicData(topic_name=_TOPIC, partitions=[partition])]
        )

    return Call(DescribeQuorumRequest, build, reading(DescribeQuorumResponse, _read))


def _read(answer: DescribeQuorumResponse) -> Quorum:
    what = "the quorum was not described"
    check(answer.error_code, what, answer.error_message, again=_AGAIN)
    row = answer.topics[0].partitions[0]
    check(row.error_code, what, row.error_message, again=_AGAIN)
    return Quorum(
        row.leader_id,
        row.leader_epoch,
        row.high_watermark,
        tuple(_replica(each) for each in row.current_voters),
        tuple(_replica(each) for each in row.observers),
        {
            node.node_id: {each.name: f"{each.host}:{each.port}" for each in node.listeners}
            for node in answer.nodes
        },
    )


def _replica(row: ReplicaState) -> QuorumReplica:
    fetched, caught_up = row.last_fetch_timestamp, row.last_caught_up_timestamp
    return QuorumReplica(
        row.replica_id,
        row.log_end_offset,
        fetched if fetched >= 0 else None,
        caught_up if caught_up >= 0 else None,
        known_id(row.replica_directory_id),
    )
