"""Rows of requests to coordinators: groups and transactions."""

from __future__ import annotations

from functools import partial

from kclient.deadline import Deadline
from kclient.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from kclient.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from kclient.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kclient.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kclient.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

from ..actors import TV1, TV2, ClassicMember, ConsumerMember, Writer, commit
from ..raw import RawClient, only
from .common import find_coordinator, make_topic, settled


def a_classic_group(address: str, name: str) -> list[object]:
    with (
        ClassicMember(address, name, topic=name) as one,
        ClassicMember(address, name, topic=name) as two,
        ClassicMember(address, name, topic=name, instance="i") as static,
        ClassicMember(address, name, topic=name, instance="i") as again,
    ):
        client = one.client
        make_topic(client, name)
        find_coordinator(client, name, 0)
        one.id = "made-up"
        # A coordinator that still loads says 0 to any heartbeat: let it finish first.
        seen: list[object] = [settled(one.commit), one.heartbeat(), one.leave()]
        one.id, one.generation = "", -1
        seen += [commit(client, "", -1, 3, name, name), one.join(protocol="sticky").error_code]
        joined = one.join(protocol="sticky")
        seen += [joined.error_code, joined.generation_id, joined.leader == one.id]
        seen += [one.commit(), one.heartbeat(), one.sync({one.id: b"all"}).assignment]
        seen += [one.commit(), one.heartbeat(), commit(client, "", -1, 3, name, name)]
        seen += [two.join().error_code, two.join().error_code]
        one.generation += 5
        seen += [one.heartbeat(), one.commit(), one.sync().error_code]
        one.generation = joined.generation_id
        repeat = one.join(protocol="sticky")
        seen += [repeat.error_code, repeat.generation_id, one.sync({one.id: b"x"}).assignment]
        seen += [one.leave(), one.leave(), one.heartbeat()]
        seen += [static.join().error_code, static.sync({static.id: b"mine"}).assignment]
        back = again.join()
        seen += [back.error_code, back.generation_id == static.generation, back.skip_assignment]
        seen += [again.sync().assignment, static.heartbeat(), static.sync().error_code]
        seen += [again.heartbeat(), static.join().error_code]
        gone = DeleteGroupsRequest(groups_names=[name])
        for _ in range(2):
            answer = client.ask(gone, 2, DeleteGroupsResponse)
            seen += [only(answer.results).error_code, again.leave()]
        return seen


def a_consumer_group(address: str, name: str) -> list[object]:
    with (
        ConsumerMember(address, "a", name, topic=name) as one,
        ConsumerMember(address, "b", name, topic=name) as two,
    ):
        make_topic(one.client, name, 4)
        find_coordinator(one.client, name, 0)

        def wrong(member: ConsumerMember, epoch: int) -> int:
            right, member.epoch = member.epoch, epoch
            code = member.heartbeat().error_code
            member.epoch = right
            return code

        def share(members: list[ConsumerMember], counts: list[int]) -> object:
            """Heartbeats until each has its share; a real broker assigns once a second."""
            deadline = Deadline(20)
            while [len(m.partitions) for m in members] != counts and not deadline.is_over:
                for member in members:
                    assert settled(member.code) == 0
            return sorted(index for member in members for index in member.partitions)

        seen = [share([one], [4]), wrong(one, 99), wrong(two, 3)]
        seen += [share([one, two], [2, 2])]
        seen += [commit(one.client, "a", epoch, 1, name, name) for epoch in (one.epoch, 1, -1)]
        seen += [commit(one.client, "nobody", 2, 1, name, name), wrong(two, -1), wrong(two, 2)]
        return [*seen, share([one], [4])]


def _transactions(address: str, name: str, version: int) -> list[object]:
    with RawClient(address) as client:
        make_topic(client, name)
        find_coordinator(client, name, 1)

        def new_writer() -> Writer:
            return Writer(client, version, transactional_id=name, topic=name)

        writer = new_writer()
        seen: list[object] = [settled(lambda: writer.end(commit=True)), settled(writer.init)]
        seen += [writer.epoch]
        seen += [writer.produce(b"a")] if version == TV1 else []
        seen += [writer.end(commit=True)]
        for commit in (True, False):
            if version == TV1:
                seen += [settled(writer.add)]
            seen += [settled(lambda: writer.produce(b"b"))]
            seen += [settled(partial(writer.end, commit=commit)), writer.epoch]
        before = writer.epoch
        seen += [settled(lambda: writer.end(commit=False)), writer.epoch - before]
        if version == TV1:
            settled(writer.add)
        seen += [settled(lambda: writer.produce(b"c"))]
        newer = new_writer()
        seen += [settled(newer.init), newer.id == writer.id, newer.epoch > writer.epoch]
        seen += [settled(lambda: writer.produce(b"late")), settled(writer.add)]
        seen += [settled(lambda: writer.end(commit=True))]
        newer.id += 77
        return [*seen, settled(lambda: newer.end(commit=True))]


def transactions_of_version_1(address: str, name: str) -> list[object]:
    return _transactions(address, name, TV1)


def transactions_of_version_2(address: str, name: str) -> list[object]:
    return _transactions(address, name, TV2)


def committed(
    client: RawClient, group: str, topic: str | None, version: int, *, stable: bool = False
) -> object:
    """Codes and offsets of partitions 0 and 1, or of all that the group has."""
    if version >= 8:
        wanted = (
            None
            if topic is None
            else [OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 1])]
        )
        asked = OffsetFetchRequestGroup(group_id=group, topics=wanted)
        request = OffsetFetchRequest(groups=[asked], require_stable=stable)
        found = only(client.ask(request, version, OffsetFetchResponse).groups)
        code, topics = found.error_code, found.topics
    else:
        old = (
            None
            if topic is None
            else [OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 1])]
        )
        request = OffsetFetchRequest(group_id=group, topics=old, require_stable=stable)
        answer = client.ask(request, version, OffsetFetchResponse)
        code, topics = answer.error_code, answer.topics
    offsets = [
        (t.name, p.partition_index, p.error_code, p.committed_offset, p.metadata)
        for t in topics
        for p in t.partitions
    ]
    return code, sorted(offsets)


def offsets_of_groups(address: str, name: str) -> list[object]:
    with RawClient(address) as client:
        make_topic(client, name)
        find_coordinator(client, name, 0)
        seen: list[object] = [settled(lambda: commit(client, "", -1, 3, name, name))]
        for version in (1, 2, 5, 7, 8, 9):
            seen += [committed(client, name, name, version)]
            seen += [committed(client, name, f"{name}-missing", version)]
            seen += [committed(client, f"{name}-other", name, version)]
            seen += [committed(client, name, None, version)] if version >= 2 else []
        seen += [commit(client, "", -1, 4, name, f"{name}-missing")]
        seen += [commit(client, "", 7, 4, f"{name}-other", name)]
        seen += [commit(client, "x", 7, 4, name, name)]
        request = DescribeGroupsRequest(groups=[name, f"{name}-other"])
        for version in (5, 6):
            described = client.ask(request, version, DescribeGroupsResponse).groups
            seen += sorted((g.group_id, g.error_code, g.group_state) for g in described)
        return seen


def offsets_in_transactions(address: str, name: str) -> list[object]:
    with RawClient(address) as client:
        make_topic(client, name)
        find_coordinator(client, name, 0)
        find_coordinator(client, name, 1)
        writer = Writer(client, TV2, transactional_id=name, topic=name)
        assert settled(writer.init) == 0
        assert settled(lambda: commit(client, "", -1, 1, name, name)) == 0

        def commit_later(offset: int, version: int = 5, member: str = "") -> int:
            item = TxnOffsetCommitRequestPartition(committed_offset=offset, committed_metadata="")
            request = TxnOffsetCommitRequest(
                transactional_id=name,
                group_id=name,
                producer_id=writer.id,
                producer_epoch=writer.epoch,
                generation_id=3 if member else -1,
                member_id=member,
                topics=[TxnOffsetCommitRequestTopic(name=name, partitions=[item])],
            )
            answer = client.ask(request, version, TxnOffsetCommitResponse)
            return int(only(only(answer.topics).partitions).error_code)

        def add() -> int:
            request = AddOffsetsToTxnRequest(
                transactional_id=name,
                producer_id=writer.id,
                producer_epoch=writer.epoch,
                group_id=name,
            )
            return client.ask(request, 3, AddOffsetsToTxnResponse).error_code

        seen: list[object] = []
        for end in (False, True):
            seen += [settled(lambda: commit_later(7)), committed(client, name, name, 8)]
            seen += [committed(client, name, name, 8, stable=True)]
            seen += [settled(partial(writer.end, commit=end))]
            seen += [settled_offsets(client, name)]
        seen += [settled(add), settled(lambda: commit_later(9, 3))]
        seen += [settled(lambda: writer.end(commit=True)), settled_offsets(client, name)]
        seen += [settled(lambda: commit_later(5, 3, "nobody"))]
        writer.epoch -= 1
        return [*seen, settled(add), settled(lambda: commit_later(5))]


def settled_offsets(client: RawClient, name: str) -> object:
    """What is committed once the markers are written."""
    deadline = Deadline(20)
    while True:
        found = committed(client, name, name, 8, stable=True)
        if "88" not in str(found) or deadline.is_over:
            return found


def static_members_of_a_consumer_group(address: str, name: str) -> list[object]:
    with (
        ConsumerMember(address, "a", name, topic=name, instance="i") as before,
        ConsumerMember(address, "b", name, topic=name, instance="i") as after,
    ):
        make_topic(before.client, name, 2)
        find_coordinator(before.client, name, 0)
        deadline = Deadline(20)
        assert settled(before.code) == 0
        while len(before.partitions) < 2 and not deadline.is_over:
            before.heartbeat()
        seen: list[object] = [before.partitions, after.code()]
        before.epoch = -2
        seen += [before.code(), after.code(), after.partitions]
        before.epoch = 1
        return [*seen, before.code(), after.code()]
