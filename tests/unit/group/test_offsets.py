"""Requests about offsets in every version: what is encoded, and what an answer means."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from kclient.cluster import Call
from kclient.errors import CommitFailed, KafkaError, NotAuthorized
from kclient.group.actions import Identity
from kclient.group.offsets import Codes, commit_call, fetch_call, ids_of
from kclient.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kclient.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from kclient.types import OffsetAndMetadata, TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("u", 3)
IDS = {"t": UUID(int=1), "u": UUID(int=2)}
MEMBER = Identity("member-1", 7)
OFFSETS = {A: OffsetAndMetadata(5, "note", 2), B: OffsetAndMetadata(9)}


def committing(ids: dict[str, UUID] | None = None) -> Call[Codes]:
    return commit_call("g", lambda: MEMBER, OFFSETS, IDS if ids is None else ids)


@pytest.mark.parametrize("version", range(11))
def test_commit_in_every_version(version: int) -> None:
    request = committing().build(version)
    again = OffsetCommitRequest.decode(request.encode(version), version)
    assert again.group_id == "g"
    assert [len(topic.partitions) for topic in again.topics] == [1, 1]
    first = again.topics[0].partitions[0]
    assert (first.committed_offset, first.committed_metadata) == (5, "note")
    if version >= 10:
        assert [topic.topic_id for topic in again.topics] == list(IDS.values())
    else:
        assert [topic.name for topic in again.topics] == ["t", "u"]
    if version >= 1:
        assert (again.member_id, again.generation_id_or_member_epoch) == ("member-1", 7)
    assert first.committed_leader_epoch == (2 if version >= 6 else -1)


def test_topics_without_ids_are_committed_by_name() -> None:
    assert committing(ids={"t": UUID(int=1)}).at_most == 9
    assert committing().at_most is None
    assert ids_of(["t", "u", "v"], {**IDS, "v": UUID(int=0)}) == IDS


@pytest.mark.parametrize("by_id", [False, True])
def test_codes_of_a_commit(by_id: bool) -> None:
    topic = OffsetCommitResponseTopic(
        partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=25)]
    )
    if by_id:
        topic.topic_id = IDS["t"]
    else:
        topic.name = "t"
    assert committing().read(OffsetCommitResponse(topics=[topic])) == {A: 25}


@pytest.mark.parametrize("version", range(10))
def test_fetch_in_every_version(version: int) -> None:
    call = fetch_call("g", [A, B], lambda: MEMBER, require_stable=True)
    again = OffsetFetchRequest.decode(call.build(version).encode(version), version)
    if version < 8:
        assert again.group_id == "g"
        assert [(each.name, each.partition_indexes) for each in again.topics or ()] == [
            ("t", [0]),
            ("u", [3]),
        ]
    else:
        (group,) = again.groups
        assert group.group_id == "g"
        assert [(each.name, each.partition_indexes) for each in group.topics or ()] == [
            ("t", [0]),
            ("u", [3]),
        ]
        expected = ("member-1", 7) if version >= 9 else (None, -1)
        assert (group.member_id, group.member_epoch) == expected
    assert again.require_stable is (version >= 7)


def old_answer(code: int = 0, *, offset: int = 5, top: int = 0) -> OffsetFetchResponse:
    found = OffsetFetchResponsePartition(
        partition_index=0, committed_offset=offset, metadata="note", error_code=code
    )
    topic = OffsetFetchResponseTopic(name="t", partitions=[found])
    return OffsetFetchResponse(topics=[topic], error_code=top)


def new_answer(code: int = 0, *, offset: int = 5, top: int = 0) -> OffsetFetchResponse:
    found = OffsetFetchResponsePartitions(
        partition_index=0, committed_offset=offset, metadata="note", error_code=code
    )
    topic = OffsetFetchResponseTopics(name="t", partitions=[found])
    group = OffsetFetchResponseGroup(group_id="g", topics=[topic], error_code=top)
    return OffsetFetchResponse(groups=[group])


@pytest.mark.parametrize("answer", [old_answer, new_answer])
def test_what_was_committed(answer: Callable[..., OffsetFetchResponse]) -> None:
    read = fetch_call("g", [A, B], lambda: MEMBER, require_stable=False).read
    assert read(answer()) == {A: OffsetAndMetadata(5, "note"), B: None}
    assert read(answer(offset=-1)) == {A: None, B: None}
    assert read(answer(3)) == {A: None, B: None}, "so 0.8 says that nothing was committed"
    with pytest.raises(NotAuthorized):
        read(answer(30))
    with pytest.raises(NotAuthorized):
        read(answer(top=30))


@pytest.mark.parametrize("code", [14, 16, 25, 88, 113])
def test_what_is_asked_again(code: int) -> None:
    read = fetch_call("g", [A], lambda: MEMBER, require_stable=True).read
    with pytest.raises(KafkaError) as caught:
        read(new_answer(top=code))
    assert caught.value.retriable
    assert isinstance(caught.value, CommitFailed) == (code in (25, 113))
