"""Replicas of partitions: which one leads, and which brokers have one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kclient.cluster.call import Call
from kclient.errors import InvalidRequest
from kclient.operations.given import by_topic, code_of, need, numbers_by_topic, partitions
from kclient.operations.many import (
    CONTROLLER_CODES,
    CallFor,
    Many,
    Results,
    check,
    failed,
    outcome,
    reading,
)
from kclient.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kclient.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from kclient.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from kclient.types import TopicPartition

ElectionType = Literal["preferred", "unclean"]
_ELECTIONS = {"preferred": 0, "unclean": 1}
_INVALID_ASSIGNMENT = 39
_ELECTION_NOT_NEEDED = 84


@dataclass(frozen=True)
class Reassignment:
    """A partition on its way: broker ids of all replicas, those to come and those to go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


# --- elections ---


def elect(
    given: Iterable[TopicPartition], election_type: ElectionType
) -> Many[TopicPartition, bool]:
    """Elect leaders; True for a new one, False where none was needed."""
    kind = code_of(_ELECTIONS, election_type, "type of election")

    def call(items: Sequence[TopicPartition], timeout_ms: int) -> CallFor[TopicPartition, bool]:
        return _election(kind, items, timeout_ms)

    return Many("electing leaders", partitions(given), call)


def elect_all(election_type: ElectionType, timeout_ms: int) -> CallFor[TopicPartition, bool]:
    """Elect the leaders of every partition that needs it."""
    return _election(code_of(_ELECTIONS, election_type, "type of election"), None, timeout_ms)


def _election(
    kind: int, items: Sequence[TopicPartition] | None, timeout_ms: int
) -> CallFor[TopicPartition, bool]:
    def build(version: int) -> ElectLeadersRequest:
        if kind:
            need(version, 1, "elect an unclean leader", "2.4")
        rows = None
        if items is not None:
            grouped = numbers_by_topic(items).items()
            rows = [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in grouped]
        return ElectLeadersRequest(election_type=kind, topic_partitions=rows, timeout_ms=timeout_ms)

    return Call(ElectLeadersRequest, build, reading(ElectLeadersResponse, _elected))


def _elected(answer: ElectLeadersResponse) -> Results[TopicPartition, bool]:
    check(answer.error_code, "no leaders were elected", again=CONTROLLER_CODES)
    results: Results[TopicPartition, bool] = {}
    for topic in answer.replica_election_results:
        for row in topic.partition_result:
            tp = TopicPartition(topic.topic, row.partition_id)
            if row.error_code in (0, _ELECTION_NOT_NEEDED):
                results[tp] = row.error_code == 0
            else:
                what = f"no leader of {tp.topic}[{tp.partition}] was elected"
                results[tp] = failed(
                    row.error_code, what, row.error_message, again=CONTROLLER_CODES
                )
    return results


# --- reassignments ---


def reassign(
    given: Mapping[TopicPartition, Sequence[int] | None],
) -> Many[TopicPartition, None]:
    """Move partitions to other brokers; None cancels a move that is under way."""
    partitions(given)
    for tp, nodes in given.items():
        if nodes is not None and (not nodes or len(set(nodes)) != len(nodes) or min(nodes) < 0):
            raise InvalidRequest(
                f"{tp.topic}[{tp.partition}]: replicas are node ids of different brokers, at "
                f"least one, or None to cancel, not {nodes!r}",
                _INVALID_ASSIGNMENT,
            )

    def call(items: Sequence[TopicPartition], timeout_ms: int) -> CallFor[TopicPartition, None]:
        def build(version: int) -> AlterPartitionReassignmentsRequest:
            topics = [
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(
                            partition_index=tp.partition, replicas=_nodes(given[tp])
                        )
                        for tp in group
                    ],
                )
                for topic, group in by_topic(items).items()
            ]
            return AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)

        read = reading(AlterPartitionReassignmentsResponse, _reassigned)
        return Call(AlterPartitionReassignmentsRequest, build, read)

    return Many("reassigning partitions", list(given), call)


def _nodes(nodes: Sequence[int] | None) -> list[int] | None:
    return None if nodes is None else list(nodes)


def _reassigned(answer: AlterPartitionReassignmentsResponse) -> Results[TopicPartition, None]:
    check(answer.error_code, "nothing was reassigned", answer.error_message, again=CONTROLLER_CODES)
    return {
        TopicPartition(topic.name, row.partition_index): outcome(
            row.error_code,
            f"{topic.name}[{row.partition_index}] was not reassigned",
            row.error_message,
            again=CONTROLLER_CODES,
        )
        for topic in answer.responses
        for row in topic.partitions
    }


def list_reassignments(
    given: Iterable[TopicPartition] | None, timeout_ms: int
) -> Call[dict[TopicPartition, Reassignment]]:
    """The partitions that are on their way, of these or of all."""
    wanted = None if given is None else numbers_by_topic(partitions(given))

    def build(version: int) -> ListPartitionReassignmentsRequest:
        topics = None
        if wanted is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in wanted.items()
            ]
        return ListPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)

    def read(answer: ListPartitionReassignmentsResponse) -> dict[TopicPartition, Reassignment]:
        what = "reassignments were not listed"
        check(answer.error_code, what, answer.error_message, again=CONTROLLER_CODES)
        return {
            TopicPartition(topic.name, row.partition_index): Reassignment(
                tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
            )
            for topic in answer.topics
            for row in topic.partitions
        }

    return Call(
        ListPartitionReassignmentsRequest,
        build,
        reading(ListPartitionReassignmentsResponse, read),
    )
