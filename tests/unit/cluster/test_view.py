"""The view after any answers: what it knows of a partition never becomes older."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kclient.cluster.view import ClusterView, LeaderHint
from kclient.net.endpoint import Endpoint
from kclient.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kclient.types import TopicPartition

ONE, TWO, NO_ID = UUID(int=1), UUID(int=2), UUID(int=0)
TP = TopicPartition("t", 0)


def partition(index: int = 0, leader: int = 1, epoch: int = 5) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2]
    )


def topic(
    *partitions: MetadataResponsePartition, topic_id: UUID = ONE, code: int = 0, name: str = "t"
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=name, topic_id=topic_id, error_code=code, partitions=list(partitions)
    )


def answer(*topics: MetadataResponseTopic, nodes: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=node, host=f"b{node}", port=9092) for node in nodes]
    return MetadataResponse(brokers=brokers, topics=list(topics), controller_id=1)


def view(*topics: MetadataResponseTopic) -> ClusterView:
    return ClusterView().merged(answer(*topics), is_full=False)


EPOCHS = st.integers(-1, 6)
PARTITIONS = st.lists(
    st.builds(partition, st.integers(0, 3), st.integers(1, 2), EPOCHS),
    max_size=4,
    unique_by=lambda each: each.partition_index,
)
ANSWERS = st.builds(
    lambda parts, code: answer(topic(*parts, code=code)), PARTITIONS, st.sampled_from([0, 0, 3, 5])
)
HINTS = st.lists(
    st.builds(
        LeaderHint,
        st.builds(TopicPartition, st.just("t"), st.integers(0, 4)),
        st.integers(1, 2),
        EPOCHS,
    ),
    max_size=4,
)


@given(st.lists(ANSWERS | HINTS, max_size=12))
def test_a_topic_never_loses_partitions_and_leaders_never_go_back(
    steps: list[MetadataResponse | list[LeaderHint]],
) -> None:
    now = ClusterView()
    for step in steps:
        before = now.topics["t"].partitions if "t" in now.topics else {}
        now = now.hinted(step) if isinstance(step, list) else now.merged(step, is_full=False)
        after = now.topics["t"].partitions if "t" in now.topics else {}
        assert set(before) <= set(after)
        for number, old in before.items():
            new = after[number]
            if new.leader_epoch != -1:  # a broker before 2.1 does not say
                assert new.leader_epoch >= old.leader_epoch
            if new.leader_epoch == old.leader_epoch != -1 and isinstance(step, list):
                assert new is old


@given(st.lists(ANSWERS, max_size=6))
def test_a_view_itself_never_changes(steps: list[MetadataResponse]) -> None:
    now = view(topic(partition(0), partition(1)))
    for step in steps:
        shown = repr(now)
        later = now.merged(step, is_full=False).hinted([LeaderHint(TP, 2, 99)])
        assert repr(now) == shown
        now = later


def test_a_topic_made_anew_replaces_the_old_one() -> None:
    old = view(topic(partition(0, epoch=9), partition(1, epoch=9)))
    new = old.merged(answer(topic(partition(0, epoch=0), topic_id=TWO)), is_full=False)
    assert set(new.topics["t"].partitions) == {0}
    assert new.topics["t"].partitions[0].leader_epoch == 0
    assert new.names == {TWO: "t"}


def test_an_answer_with_an_error_keeps_the_leaders() -> None:
    now = view(topic(partition(0))).merged(answer(topic(code=5, topic_id=NO_ID)), is_full=False)
    assert now.topics["t"].error_code == 5
    assert now.leader(TP) == Endpoint(1, "b1", 9092)
    assert now.names == {ONE: "t"}


def test_without_ids_a_deleted_topic_may_come_back_with_fewer_partitions() -> None:
    old = view(topic(partition(0, epoch=9), partition(1, epoch=9), topic_id=NO_ID))
    gone = old.merged(answer(topic(code=3, topic_id=NO_ID)), is_full=False)
    new = gone.merged(answer(topic(partition(0, epoch=0), topic_id=NO_ID)), is_full=False)
    assert [each.leader_epoch for each in new.topics["t"].partitions.values()] == [0]


def test_a_full_answer_drops_topics_that_are_gone() -> None:
    both = view(topic(partition()), topic(partition(), topic_id=TWO, name="u"))
    now = both.merged(answer(topic(partition())), is_full=True)
    assert (set(now.topics), now.names) == ({"t"}, {ONE: "t"})


def test_a_partial_answer_keeps_the_others() -> None:
    now = view(topic(partition())).merged(
        answer(topic(partition(), topic_id=TWO, name="u")), is_full=False
    )
    assert (set(now.topics), now.names) == ({"t", "u"}, {ONE: "t", TWO: "u"})


def test_an_id_that_no_topic_has_any_more_is_forgotten() -> None:
    lost = MetadataResponseTopic(name=None, topic_id=ONE, error_code=100)
    assert view(topic(partition())).merged(answer(lost), is_full=False).names == {}


def test_brokers_are_those_of_the_last_answer_that_lists_any() -> None:
    now = view().merged(answer(nodes=(2, 3)), is_full=False)
    assert set(now.brokers) == {2, 3}
    assert set(now.merged(answer(nodes=()), is_full=False).brokers) == {2, 3}


def test_hints_bring_leaders_and_their_addresses() -> None:
    moved = [LeaderHint(TP, 7, 6), LeaderHint(TopicPartition("t", 1), 7, 6)]
    now = view(topic(partition(0), partition(1), partition(2)))
    hinted = now.hinted(moved, [Endpoint(7, "b7", 9092, "rack")])
    leaders = [hinted.leader(TopicPartition("t", number)) for number in range(3)]
    assert leaders == [Endpoint(7, "b7", 9092, "rack")] * 2 + [Endpoint(1, "b1", 9092)]
    assert hinted.topics["t"].partitions[0].replica_nodes == [1, 2]


def test_of_two_hints_the_newer_counts() -> None:
    now = view(topic(partition())).hinted([LeaderHint(TP, 2, 8), LeaderHint(TP, 1, 7)])
    assert (now.partition(TP) or partition()).leader_id == 2


def test_hints_about_what_is_not_known_are_ignored() -> None:
    hints = [LeaderHint(TopicPartition("t", 9), 1, 9), LeaderHint(TopicPartition("u", 0), 1, 9)]
    now = view(topic(partition()))
    assert now.hinted(hints) == now


def test_a_forgotten_topic_leaves_nothing_behind() -> None:
    now = view(topic(partition())).without("t")
    assert (now.topics, now.names, now.leader(TP)) == ({}, {}, None)
