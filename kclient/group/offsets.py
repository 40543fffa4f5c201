"""A group's offsets: the requests that commit and fetch them, in every version; no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from kclient.cluster import Call
from kclient.errors import KafkaError, broker_error
from kclient.group.actions import Identity
from kclient.group.codes import UNKNOWN_MEMBER_ID
from kclient.protocol import Message
from kclient.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kclient.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from kclient.types import OffsetAndMetadata, TopicPartition

STALE_MEMBER_EPOCH = 113
_NAMES = 9
"""The last version with topic names; later ones have ids (KIP-848)."""
Codes = Mapping[TopicPartition, int]
Committed = Mapping[TopicPartition, "OffsetAndMetadata | None"]
V = TypeVar("V")


def commit_call(
    group_id: str,
    identity: Callable[[], Identity],
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    ids: Mapping[str, UUID],
) -> Call[Codes]:
    """Commit offsets; the answer tells an error code for each partition.

    ``identity`` is asked for each attempt: members grow older.
    """
    names = {topic_id: name for name, topic_id in ids.items()}

    def build(version: int) -> Message:
        topics = []
        for name, some in _by_topic(offsets).items():
            topic = OffsetCommitRequestTopic(
                partitions=[_commit_partition(number, at, version) for number, at in some.items()]
            )
            if version > _NAMES:
                topic.topic_id = ids[name]
            else:
                topic.name = name
            topics.append(topic)
        request = OffsetCommitRequest(group_id=group_id, topics=topics)
        member = identity()
        if version >= 1:
            request.generation_id_or_member_epoch = member.generation
            request.member_id = member.member_id
        if version >= 7:
            request.group_instance_id = member.instance_id
        return request

    def read(answer: Message) -> Codes:
        assert isinstance(answer, OffsetCommitResponse)
        return {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), each.partition_index): (
                each.error_code
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    known = all(tp.topic in ids for tp in offsets)
    return Call(OffsetCommitRequest, build, read, at_most=None if known else _NAMES)


def _commit_partition(
    number: int, at: OffsetAndMetadata, version: int
) -> OffsetCommitRequestPartition:
    made = OffsetCommitRequestPartition(
        partition_index=number, committed_offset=at.offset, committed_metadata=at.metadata
    )
    if version >= 6:
        made.committed_leader_epoch = at.leader_epoch
    return made


def fetch_call(
    group_id: str,
    tps: Sequence[TopicPartition],
    identity: Callable[[], Identity],
    *,
    require_stable: bool,
) -> Call[Committed]:
    """Fetch committed offsets; None for partitions without.

    With ``require_stable``, offsets of open transactions are waited for (KIP-447): the
    answer is a retriable error until then.
    """

    def build(version: int) -> Message:
        topics = _by_topic(dict.fromkeys(tps))
        if version < 8:
            old = [
                OffsetFetchRequestTopic(name=name, partition_indexes=list(numbers))
                for name, numbers in topics.items()
            ]
            request = OffsetFetchRequest(group_id=group_id, topics=old)
        else:
            group = OffsetFetchRequestGroup(
                group_id=group_id,
                topics=[
                    OffsetFetchRequestTopics(name=name, partition_indexes=list(numbers))
                    for name, numbers in topics.items()
                ],
            )
            member = identity()
            if version >= 9 and member.member_id:
                group.member_id, group.member_epoch = member.member_id, member.generation
            request = OffsetFetchRequest(groups=[group])
        if version >= 7:
            request.require_stable = require_stable
        return request

    def read(answer: Message) -> Committed:
        assert isinstance(answer, OffsetFetchResponse)
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(tps)
        for code in (answer.error_code, *(group.error_code for group in answer.groups)):
            if code:
                raise _error(code, group_id)
        for old in answer.topics:
            for each in old.partitions:
                found[TopicPartition(old.name, each.partition_index)] = _committed(each, group_id)
        for topic in (topic for group in answer.groups for topic in group.topics):
            for one in topic.partitions:
                found[TopicPartition(topic.name, one.partition_index)] = _committed(one, group_id)
        return found

    return Call(OffsetFetchRequest, build, read, at_most=_NAMES)


def _committed(
    told: OffsetFetchResponsePartition | OffsetFetchResponsePartitions, group_id: str
) -> OffsetAndMetadata | None:
    if told.error_code == 3:  # so old brokers say that nothing was committed
        return None
    if told.error_code:
        raise _error(told.error_code, group_id)
    if told.committed_offset < 0:
        return None
    epoch = told.committed_leader_epoch
    return OffsetAndMetadata(told.committed_offset, told.metadata or "", epoch)


def _error(code: int, group_id: str) -> KafkaError:
    error = broker_error(code, f"fetching the offsets of group {group_id!r}", group_id=group_id)
    # Whatever is wrong with the member, the next heartbeat tells: then it is asked again.
    error.retriable = error.retriable or code in (UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH)
    return error


def _by_topic(items: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    topics: dict[str, dict[int, V]] = {}
    for tp, item in items.items():
        topics.setdefault(tp.topic, {})[tp.partition] = item
    return topics


def ids_of(topics: Iterable[str], known: Mapping[str, UUID]) -> dict[str, UUID]:
    """The ids of those topics that have one."""
    return {name: known[name] for name in topics if name in known and known[name].int}
