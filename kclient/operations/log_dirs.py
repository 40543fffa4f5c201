"""Log directories of brokers, and the replicas in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kclient.cluster.call import Call
from kclient.cluster.target import Node
from kclient.errors import BrokerError, InvalidRequest
from kclient.operations.given import check_topic, numbers_by_topic, partitions
from kclient.operations.many import (
    LEADER_CODES,
    CallFor,
    Many,
    Results,
    check,
    failed,
    outcome,
    reading,
)
from kclient.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kclient.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kclient.types import TopicPartition


class Replica(NamedTuple):
    """A partition's replica on one broker."""

    topic: str
    partition: int
    node: int


@dataclass(frozen=True)
class ReplicaLog:
    """A replica in a directory. ``size`` is in bytes, ``lag`` in records behind the leader.

    One that ``is_future`` is on its way here from another directory of the broker.
    """

    size: int
    lag: int
    is_future: bool


@dataclass(frozen=True)
class LogDir:
    """A directory, with the size of its volume in bytes (since Kafka 3.3).

    ``error`` says why it is not to be used, if so.
    """

    path: str
    replicas: Mapping[TopicPartition, ReplicaLog]
    total_bytes: int | None = None
    usable_bytes: int | None = None
    error: BrokerError | None = None


def describe(given: Iterable[TopicPartition] | None) -> Call[dict[str, LogDir]]:
    """The directories of one broker, with all replicas in them or only some."""
    wanted = None if given is None else numbers_by_topic(partitions(given))

    def build(version: int) -> DescribeLogDirsRequest:
        topics = None
        if wanted is not None:
            topics = [
                DescribableLogDirTopic(topic=topic, partitions=numbers)
                for topic, numbers in wanted.items()
            ]
        return DescribeLogDirsRequest(topics=topics)

    def read(answer: DescribeLogDirsResponse) -> dict[str, LogDir]:
        check(answer.error_code, "log directories were not told")
        return {row.log_dir: _log_dir(row) for row in answer.results}

    return Call(DescribeLogDirsRequest, build, reading(DescribeLogDirsResponse, read))


def _log_dir(row: DescribeLogDirsResult) -> LogDir:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaLog(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in row.topics
        for each in topic.partitions
    }
    error = failed(row.error_code, f"{row.log_dir} is out of use") if row.error_code else None
    return LogDir(row.log_dir, replicas, _known(row.total_bytes), _known(row.usable_bytes), error)


def _known(size: int) -> int | None:
    return size if size >= 0 else None


def alter(given: Mapping[Replica, str]) -> Many[Replica, None]:
    """Move replicas to other directories of their brokers; the move only starts here."""
    for replica, path in given.items():
        if not isinstance(replica, Replica) or not path.startswith("/"):
            raise InvalidRequest(
                f"give Replica(topic, partition, node) and an absolute path, not {replica!r} "
                f"and {path!r}"
            )
        check_topic(replica.topic)

    def call(items: Sequence[Replica], timeout_ms: int) -> CallFor[Replica, None]:
        by_path: dict[str, list[TopicPartition]] = {}
        for item in items:
            by_path.setdefault(given[item], []).append(TopicPartition(*item[:2]))

        def build(version: int) -> AlterReplicaLogDirsRequest:
            return AlterReplicaLogDirsRequest(
                dirs=[_dir(path, tps) for path, tps in by_path.items()]
            )

        def read(answer: AlterReplicaLogDirsResponse) -> Results[Replica, None]:
            return {
                Replica(topic.topic_name, row.partition_index, items[0].node): outcome(
                    row.error_code,
                    f"{topic.topic_name}[{row.partition_index}] was not moved",
                    again=LEADER_CODES - {3},
                )
                for topic in answer.results
                for row in topic.partitions
            }

        read_any = reading(AlterReplicaLogDirsResponse, read)
        return Call(AlterReplicaLogDirsRequest, build, read_any)

    return Many("moving replicas", list(given), call, lambda replica: Node(replica.node))


def _dir(path: str, tps: Sequence[TopicPartition]) -> AlterReplicaLogDir:
    topics = [
        AlterReplicaLogDirTopic(name=topic, partitions=numbers)
        for topic, numbers in numbers_by_topic(tps).items()
    ]
    return AlterReplicaLogDir(path=path, topics=topics)
