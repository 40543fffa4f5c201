"""Assignments and their encodings against those of the Java client."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from kclient.group.assignors import Assignment, MemberSubscription, choose_assignors
from kclient.group.assignors.metadata import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kclient.group.assignors.sticky import StickyUserData
from kclient.types import TopicPartition

from .groups import Case, World, all_partitions
from .java import run_java

SOURCE = Path(__file__).with_name("AssignorOracle.java")
ASSIGNORS = choose_assignors(["range", "roundrobin", "sticky", "cooperative-sticky"])
NAMES = [one.name for one in ASSIGNORS]
GROUPS = 200

Answer = dict[str, Any]


def ask_java(tasks: Iterable[Answer]) -> list[Answer]:
    lines = run_java("4.3.1", SOURCE, "\n".join(json.dumps(task) for task in tasks))
    return [json.loads(line) for line in lines]


@lru_cache(maxsize=1)
def answers() -> dict[str, list[tuple[Case, Answer]]]:
    """Every case with Java's answer, by assignor."""
    worlds = [(f"group {n}", World(n, one)) for one in ASSIGNORS for n in range(GROUPS)]
    cases = list(chain.from_iterable(world.rounds(name) for name, world in worlds))
    paired = list(zip(cases, ask_java(case.task() for case in cases), strict=True))
    return {
        one.name: [(case, answer) for case, answer in paired if case.assignor is one]
        for one in ASSIGNORS
    }


def in_order(assignment: Assignment) -> Assignment:
    return {one: sorted(taken) for one, taken in assignment.items()}


def read(answer: Answer) -> Assignment:
    return {one: [TopicPartition(*tp) for tp in taken] for one, taken in answer.items()}


def is_sound(case: Case, assignment: Assignment) -> bool:
    """Whether members only have what they subscribed to, and nothing twice."""
    taken = list(chain.from_iterable(assignment.values()))
    return len(taken) == len(set(taken)) and all(
        tp.topic in case.members[one].topics for one in assignment for tp in assignment[one]
    )


@pytest.mark.parametrize("name", NAMES)
def test_assignments_are_those_of_java(name: str) -> None:
    compared = 0
    for case, answer in answers()[name]:
        # Java's sticky assignors give a partition back to its former owner without asking
        # whether that still subscribes to the topic: it then gets what it must not have, or
        # Java fails with a NullPointerException. Range and round robin have no such case.
        java_erred = "error" in answer or not is_sound(case, read(answer))
        if not java_erred:
            assert in_order(case.ours) == in_order(read(answer)), case.name
            compared += 1
        else:
            assert "sticky" in name, (case.name, answer)
    assert compared >= 0.99 * len(answers()[name])


@pytest.mark.parametrize("name", NAMES)
def test_assignments_are_sound_also_where_java_errs(name: str) -> None:
    for case, _ in answers()[name]:
        assert case.ours.keys() == case.members.keys()
        assert is_sound(case, case.ours), case.name
        taken = set(chain.from_iterable(case.ours.values()))
        withheld = all_partitions(case) - taken
        if name == "cooperative-sticky":  # it waits for the owner to give it up
            owned = {tp for member in case.members.values() for tp in member.owned}
            assert withheld <= owned, case.name
        else:
            assert not withheld, case.name


@pytest.mark.parametrize("name", NAMES)
def test_all_kinds_of_groups_are_covered(name: str) -> None:
    cases = [case for case, _ in answers()[name]]
    kinds = {(case.has_racks, case.is_alike, case.has_history) for case in cases}
    assert len(kinds) == (4 if name in ("range", "roundrobin") else 8)
    assert {len(case.members) for case in cases} >= set(range(1, 13))


def random_member(rng: random.Random) -> tuple[MemberSubscription, list[TopicPartition] | None]:
    topics = [f"topic-{rng.randrange(99)}" for _ in range(rng.randint(0, 30))]
    owned = [TopicPartition(f"topic-{rng.randrange(40)}", rng.randrange(9)) for _ in range(30)]
    previous = None if rng.random() < 0.2 else list(dict.fromkeys(owned))
    return MemberSubscription(
        topics=tuple(dict.fromkeys(topics)),
        owned=tuple(previous or ()),
        generation=rng.choice((-1, 0, 1, 2**31 - 1)),
        rack=rng.choice((None, "rack", "größe")),
    ), previous


def topics_of(user_data: bytes) -> tuple[int, list[tuple[str, list[int]]]]:
    data = StickyUserData.decode(user_data, 1)
    topics = sorted((each.topic, each.partitions) for each in data.previous_assignment)
    return data.generation, topics


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_those_of_java(name: str) -> None:
    (assignor,) = choose_assignors([name])
    rng = random.Random(name)
    members, tasks = [], []
    for _ in range(100):
        member, previous = random_member(rng)
        # An assignor that was never given anything does not know the generation either.
        generation = -1 if previous is None else member.generation
        user_data = assignor.user_data(previous, generation)
        members.append(member._replace(generation=generation, user_data=user_data))
        stated = members[-1]._replace(user_data=None)._asdict()
        tasks.append({"assignor": name, "member": {**stated, "previous": previous}})
    for member, answer in zip(members, ask_java(tasks), strict=True):
        java_data = answer["user_data"] and bytes.fromhex(answer["user_data"])
        if name == "sticky" and java_data:  # Java writes topics in the order of a hash table
            assert topics_of(member.user_data or b"") == topics_of(java_data)
            member = member._replace(user_data=java_data)
        assert member.user_data == java_data
        assert encode_subscription(member).hex() == answer["subscription"]
        assert encode_assignment(member.owned).hex() == answer["assignment"]
        read_back = decode_subscription(bytes.fromhex(answer["subscription"]))
        expected = member._replace(
            topics=tuple(sorted(member.topics)), owned=tuple(sorted(member.owned))
        )
        assert read_back == expected
        assert set(decode_assignment(bytes.fromhex(answer["assignment"]))) == set(member.owned)
