from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kclient.errors import ConfigError, ProtocolError
from kclient.group.assignors import (
    Assignment,
    Assignor,
    CooperativeStickyAssignor,
    MemberSubscription,
    PartitionInfo,
    RangeAssignor,
    RebalanceProtocol,
    StickyAssignor,
    choose_assignors,
    common_protocol,
)
from kclient.group.assignors.interface import Members, PartitionsByTopic
from kclient.group.assignors.metadata import (
    decode_assignment,
    decode_members,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kclient.protocol.messages.join_group import JoinGroupResponseMember
from kclient.types import TopicPartition

ALL = choose_assignors(["range", "roundrobin", "sticky", "cooperative-sticky"])


def topic(count: int) -> list[PartitionInfo]:
    return [PartitionInfo(number) for number in range(count)]


def of(name: str, *numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(name, number) for number in numbers)


# --- choosing ------------------------------------------------------------------------------


def test_eager_unless_all_can_cooperate() -> None:
    assert (
        common_protocol(choose_assignors(["cooperative-sticky"])) is RebalanceProtocol.COOPERATIVE
    )
    mixed = choose_assignors(["range", "cooperative-sticky"])
    assert common_protocol(mixed) is RebalanceProtocol.EAGER


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "at least one"),
        (["range", "range"], "twice"),
        (["cooperative_sticky"], "did you mean 'cooperative-sticky'"),
    ],
)
def test_a_bad_choice_is_refused(names: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_assignors(names)


def test_an_assignor_of_the_user_is_taken_as_it_is() -> None:
    class Mine:
        name = "mine"
        protocols = (RebalanceProtocol.COOPERATIVE,)

        def user_data(self, previous: Sequence[TopicPartition] | None, generation: int) -> None:
            return None

        def assign(self, partitions: PartitionsByTopic, members: Members) -> Assignment:
            return {}

    mine = Mine()
    assert choose_assignors([mine]) == (mine,)
    with pytest.raises(ConfigError, match="mine, range have no rebalance protocol in common"):
        choose_assignors([mine, "range"])


# --- assigning -----------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", ALL, ids=lambda one: one.name)
def test_nobody_and_nothing(assignor: Assignor) -> None:
    assert assignor.assign({"t": topic(3)}, {}) == {}
    assert assignor.assign({}, {"m": MemberSubscription(("t",))}) == {"m": []}
    assert assignor.assign({"t": []}, {"m": MemberSubscription(("t",))}) == {"m": []}


@pytest.mark.parametrize("assignor", ALL, ids=lambda one: one.name)
def test_a_member_without_topics_gets_nothing(assignor: Assignor) -> None:
    members = {"a": MemberSubscription(()), "b": MemberSubscription(("t",))}
    assert assignor.assign({"t": topic(4)}, members) == {"a": [], "b": list(of("t", 0, 1, 2, 3))}


def test_ranges_of_static_members_follow_their_names_not_their_ids() -> None:
    members = {
        "id-1": MemberSubscription(("t",), instance_id="two"),
        "id-2": MemberSubscription(("t",), instance_id="one"),
        "id-0": MemberSubscription(("t",)),
    }
    assert RangeAssignor().assign({"t": topic(3)}, members) == {
        "id-2": list(of("t", 0)),
        "id-1": list(of("t", 1)),
        "id-0": list(of("t", 2)),
    }


def test_what_moves_is_withheld_until_its_owner_gave_it_up() -> None:
    assignor = CooperativeStickyAssignor()
    owner = MemberSubscription(("t",), of("t", 0, 1, 2, 3), generation=1)
    first = assignor.assign({"t": topic(4)}, {"old": owner, "new": MemberSubscription(("t",))})
    assert first == {"old": list(of("t", 0, 1)), "new": []}
    second = assignor.assign(
        {"t": topic(4)},
        {
            "old": owner._replace(owned=tuple(first["old"]), generation=2),
            "new": MemberSubscription(("t",), generation=2),
        },
    )
    assert second == {"old": list(of("t", 0, 1)), "new": list(of("t", 2, 3))}


def test_a_partition_claimed_twice_is_withheld_from_both() -> None:
    claim = MemberSubscription(("t",), of("t", 0), generation=5)
    given_out = CooperativeStickyAssignor().assign({"t": topic(2)}, {"a": claim, "b": claim})
    assert TopicPartition("t", 0) not in given_out["a"] + given_out["b"]


def test_the_newer_claim_wins() -> None:
    stale = MemberSubscription(("t",), of("t", 0, 1), generation=4)
    fresh = MemberSubscription(("t",), of("t", 0), generation=5)
    given_out = CooperativeStickyAssignor().assign({"t": topic(2)}, {"a": stale, "b": fresh})
    assert given_out == {"a": list(of("t", 1)), "b": list(of("t", 0))}


def test_sticky_remembers_through_user_data_of_both_versions() -> None:
    assignor = StickyAssignor()
    data = assignor.user_data(of("t", 1, 3), 7)
    assert data is not None
    for told in (data, data[:-4]):  # the first version had no generation
        members = {
            "a": MemberSubscription(("t",), user_data=told),
            "b": MemberSubscription(("t",)),
        }
        assert assignor.assign({"t": topic(4)}, members)["a"] == list(of("t", 1, 3))


# --- what members say ----------------------------------------------------------------------

names = st.sampled_from(["t", "u", "v", "gone"])
partitions = st.builds(TopicPartition, names, st.integers(-1, 6))
tellings = st.binary(max_size=40) | st.builds(
    StickyAssignor().user_data, st.lists(partitions), st.integers(-1, 5)
)
subscriptions = st.builds(
    MemberSubscription,
    topics=st.lists(names, unique=True).map(tuple),
    owned=st.lists(partitions).map(tuple),
    generation=st.integers(-1, 5),
    rack=st.sampled_from([None, "", "a", "b"]),
    user_data=st.none() | tellings,
    instance_id=st.none() | st.sampled_from(["x", "y"]),
)
clusters = st.dictionaries(
    names.filter("gone".__ne__),
    st.lists(st.frozensets(st.sampled_from(["a", "b"])), max_size=6).map(
        lambda racks: [PartitionInfo(number, each) for number, each in enumerate(racks)]
    ),
)


@pytest.mark.parametrize("assignor", ALL, ids=lambda one: one.name)
@given(cluster=clusters, members=st.dictionaries(st.text(max_size=3), subscriptions, max_size=6))
def test_no_claim_can_upset_the_leader(
    assignor: Assignor,
    cluster: dict[str, list[PartitionInfo]],
    members: dict[str, MemberSubscription],
) -> None:
    given_out = assignor.assign(cluster, members)
    assert given_out.keys() == members.keys()
    taken = [(tp, one) for one, each in given_out.items() for tp in each]
    assert len({tp for tp, _ in taken}) == len(taken)
    for tp, one in taken:
        assert tp.topic in members[one].topics
        assert tp.partition < len(cluster[tp.topic])
        assert tp.partition >= 0


@pytest.mark.parametrize("assignor", ALL[2:], ids=lambda one: one.name)
@given(cluster=clusters, members=st.dictionaries(st.text(max_size=3), subscriptions, max_size=6))
def test_the_group_settles(
    assignor: Assignor,
    cluster: dict[str, list[PartitionInfo]],
    members: dict[str, MemberSubscription],
) -> None:
    """After some rounds members own what they are given: nothing is withheld, nothing moves."""
    seen = []
    for generation in range(6, 14):
        given_out = assignor.assign(cluster, members)
        seen.append(given_out)
        for one, taken in given_out.items():
            members[one] = members[one]._replace(
                owned=tuple(taken),
                generation=generation,
                user_data=assignor.user_data(taken, generation),
            )
    wanted = {name for member in members.values() for name in member.topics}
    total = sum(len(infos) for name, infos in cluster.items() if name in wanted)
    assert sum(map(len, seen[-1].values())) == total
    before, after = seen[-2:]
    assert {one: set(taken) for one, taken in before.items()} == {
        one: set(taken) for one, taken in after.items()
    }


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (decode_subscription, decode_assignment):
        try:
            read(data)
        except ProtocolError as error:
            assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_newer_versions_are_read_as_far_as_they_are_known() -> None:
    member = MemberSubscription(("t",), of("t", 1), 3, "rack", b"data")
    data = b"\x00\x63" + encode_subscription(member)[2:] + b"more"
    assert decode_subscription(data) == member


def test_no_assignment_is_an_empty_one() -> None:
    assert decode_assignment(b"") == ()
    assert decode_assignment(encode_assignment([])) == ()


def test_a_member_that_cannot_be_read_gets_nothing_and_the_rest_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = encode_subscription(MemberSubscription(("t",)))
    members = decode_members(
        [
            JoinGroupResponseMember(member_id="bad", metadata=b"\x00\x01\xff"),
            JoinGroupResponseMember(member_id="none", metadata=b""),
            JoinGroupResponseMember(member_id="good", metadata=good, group_instance_id="i"),
        ]
    )
    assert members["good"].instance_id == "i"
    assert RangeAssignor().assign({"t": topic(2)}, members) == {
        "bad": [],
        "none": [],
        "good": list(of("t", 0, 1)),
    }
    assert [line.split()[1] for line in caplog.messages] == ["bad", "none"]
