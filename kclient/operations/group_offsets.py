"""What groups have committed: read, altered, deleted.

The newest versions of these APIs name topics by id, which an operator does not have; the last
ones that take names are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kclient.cluster.call import Call
from kclient.errors import InvalidRequest, KafkaError, UnsupportedVersion
from kclient.operations.given import by_topic, need, numbers_by_topic, partitions
from kclient.operations.groups import check_group, coordinator_of
from kclient.operations.many import (
    COORDINATOR_CODES,
    CallFor,
    Many,
    Results,
    check,
    failed,
    outcome,
    reading,
)
from kclient.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kclient.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from kclient.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from kclient.types import OffsetAndMetadata, TopicPartition

Offsets = dict[TopicPartition, OffsetAndMetadata]
Groups = list[str] | tuple[str, ...] | Mapping[str, "Iterable[TopicPartition] | None"]
"""Groups, each with the partitions to tell of, or with all."""
Wanted = Mapping[str, "list[TopicPartition] | None"]
_BY_NAME = 9
_UNSTABLE_OFFSET_COMMIT = 88
_FETCH_CODES = COORDINATOR_CODES | {_UNSTABLE_OFFSET_COMMIT}
_GROUP_SUBSCRIBED = 86
_HINTS = {
    25: "the group has members: stop its consumers first",
    _GROUP_SUBSCRIBED: "the group reads that topic: stop its consumers first",
}


def read_wanted(given: Groups) -> Wanted:
    """Groups, and the partitions to tell of."""
    groups = given if isinstance(given, Mapping) else dict.fromkeys(given)
    return {
        check_group(group): None if tps is None else partitions(tps)
        for group, tps in groups.items()
    }


# --- read ---


def fetch(wanted: Wanted, *, stable: bool) -> Many[str, Offsets]:
    """What groups have committed; ``stable`` waits for open transactions (since Kafka 2.5).

    A broker before 3.0 takes one group in a request: UnsupportedVersion for more.
    """

    def call(items: Sequence[str], timeout_ms: int) -> CallFor[str, Offsets]:
        def build(version: int) -> OffsetFetchRequest:
            if stable:
                need(version, 7, "wait for transactions", "2.5")
            if version >= 8:
                groups = [_group(item, wanted[item]) for item in items]
                return OffsetFetchRequest(groups=groups, require_stable=stable)
            if len(items) > 1:
                raise UnsupportedVersion("the broker tells the offsets of one group at a time")
            return _single(items[0], wanted[items[0]], version, stable)

        def read(answer: OffsetFetchResponse) -> Results[str, Offsets]:
            if answer.groups:
                return {row.group_id: _offsets(row) for row in answer.groups}
            what = f"the offsets of {items[0]!r} were not told"
            check(answer.error_code, what, again=_FETCH_CODES)
            rows = [(topic.name, row) for topic in answer.topics for row in topic.partitions]
            return {items[0]: _committed(items[0], rows)}

        return Call(OffsetFetchRequest, build, reading(OffsetFetchResponse, read), at_most=_BY_NAME)

    return Many("reading group offsets", list(wanted), call, coordinator_of)


def _group(group: str, tps: Sequence[TopicPartition] | None) -> OffsetFetchRequestGroup:
    topics = None
    if tps is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in numbers_by_topic(tps).items()
        ]
    return OffsetFetchRequestGroup(group_id=group, topics=topics)


def _single(
    group: str, tps: Sequence[TopicPartition] | None, version: int, stable: bool
) -> OffsetFetchRequest:
    topics = None
    if tps is None:
        need(version, 2, "tell all offsets of a group: name the partitions", "0.10.2")
    else:
        topics = [
            OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in numbers_by_topic(tps).items()
        ]
    return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)


def _offsets(row: OffsetFetchResponseGroup) -> Offsets | KafkaError:
    if row.error_code:
        what = f"the offsets of {row.group_id!r} were not told"
        return failed(row.error_code, what, again=_FETCH_CODES)
    rows = [(topic.name, each) for topic in row.topics for each in topic.partitions]
    return _committed(row.group_id, rows)


def _committed(
    group: str,
    rows: Sequence[tuple[str, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]],
) -> Offsets | KafkaError:
    offsets: Offsets = {}
    for topic, row in rows:
        if row.error_code:
            what = f"the offset of {group!r} in {topic}[{row.partition_index}] was not told"
            return failed(row.error_code, what, again=_FETCH_CODES)
        if row.committed_offset >= 0:  # -1: nothing is committed there
            offsets[TopicPartition(topic, row.partition_index)] = OffsetAndMetadata(
                row.committed_offset, row.metadata or "", row.committed_leader_epoch
            )
    return offsets


# --- alter ---


def alter(
    group: str, given: Mapping[TopicPartition, int | OffsetAndMetadata]
) -> Many[TopicPartition, None]:
    """Commit offsets for a group that has no members."""
    partitions(given)
    offsets = {
        tp: OffsetAndMetadata(each) if isinstance(each, int) else each for tp, each in given.items()
    }
    for tp, each in offsets.items():
        if each.offset < 0:
            raise InvalidRequest(f"{tp.topic}[{tp.partition}]: an offset is 0 or more, not {each}")

    def call(items: Sequence[TopicPartition], timeout_ms: int) -> CallFor[TopicPartition, None]:
        def build(version: int) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=group,
                topics=[
                    OffsetCommitRequestTopic(
                        name=topic, partitions=[_commit(tp, offsets[tp]) for tp in tps]
                    )
                    for topic, tps in by_topic(items).items()
                ],
            )

        def read(answer: OffsetCommitResponse) -> Results[TopicPartition, None]:
            return {
                TopicPartition(topic.name, row.partition_index): _changed(
                    group, topic.name, row.partition_index, row.error_code
                )
                for topic in answer.topics
                for row in topic.partitions
            }

        return Call(
            OffsetCommitRequest, build, reading(OffsetCommitResponse, read), at_most=_BY_NAME
        )

    return Many("altering group offsets", list(offsets), call, lambda tp: coordinator_of(group))


def _commit(tp: TopicPartition, offset: OffsetAndMetadata) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=tp.partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def _changed(group: str, topic: str, partition: int, code: int) -> KafkaError | None:
    what = f"the offset of group {group!r} in {topic}[{partition}] was not changed"
    return outcome(code, what, _HINTS.get(code), again=COORDINATOR_CODES)


# --- delete ---


def delete(group: str, given: Iterable[TopicPartition]) -> Many[TopicPartition, None]:
    """Forget what a group has committed for some partitions."""

    def call(items: Sequence[TopicPartition], timeout_ms: int) -> CallFor[TopicPartition, None]:
        def build(version: int) -> OffsetDeleteRequest:
            return OffsetDeleteRequest(
                group_id=group,
                topics=[
                    OffsetDeleteRequestTopic(
                        name=topic,
                        partitions=[
                            OffsetDeleteRequestPartition(partition_index=number)
                            for number in numbers
                        ],
                    )
                    for topic, numbers in numbers_by_topic(items).items()
                ],
            )

        def read(answer: OffsetDeleteResponse) -> Results[TopicPartition, None]:
            what = f"no offset of group {group!r} was deleted"
            check(answer.error_code, what, again=COORDINATOR_CODES)
            return {
                TopicPartition(topic.name, row.partition_index): _changed(
                    group, topic.name, row.partition_index, row.error_code
                )
                for topic in answer.topics
                for row in topic.partitions
            }

        return Call(OffsetDeleteRequest, build, reading(OffsetDeleteResponse, read))

    return Many("deleting group offsets", partitions(given), call, lambda tp: coordinator_of(group))
