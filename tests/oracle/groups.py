"""Random groups whose members come and go, for assignors to serve over several rounds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from kclient.group.assignors import Assignment, Assignor, MemberSubscription, PartitionInfo
from kclient.group.assignors.metadata import encode_subscription
from kclient.types import TopicPartition

RACKS = ("a", "b", "c")
ROUNDS = 5

Topics = dict[str, list[PartitionInfo]]
Members = dict[str, MemberSubscription]


class Case(NamedTuple):
    """One rebalance."""

    name: str
    assignor: Assignor
    topics: Topics
    members: Members
    ours: Assignment

    def task(self) -> dict[str, Any]:
        """As the Java program takes it."""
        return {
            "assignor": self.assignor.name,
            "topics": {
                topic: [sorted(info.racks) for info in infos]
                for topic, infos in self.topics.items()
            },
            "members": [
                {
                    "id": one,
                    "instance": member.instance_id,
                    "metadata": encode_subscription(member).hex(),
                }
                for one, member in self.members.items()
            ],
        }

    @property
    def has_racks(self) -> bool:
        return any(member.rack for member in self.members.values())

    @property
    def is_alike(self) -> bool:
        return len({frozenset(member.topics) for member in self.members.values()}) == 1

    @property
    def has_history(self) -> bool:
        """Whether members said anything of earlier rounds that the assignor looks at."""
        knows = self.assignor.user_data(None, -1)
        return any(member.user_data != knows for member in self.members.values())


class World:
    """A cluster and a group that change at random, and remember."""

    def __init__(self, seed: int, assignor: Assignor) -> None:
        self.rng = rng = random.Random(f"{seed} {assignor.name}")
        self.assignor = assignor
        self.alike = rng.random() < 0.6  # all members subscribe to the same topics
        self.with_racks = rng.random() < 0.5
        self.untidy = rng.random() < 0.3  # some members missed the last generation
        self.generation = 0
        self.names = 0
        self.topics: Topics = {}
        for number in range(rng.randint(1, 6)):
            self.grow(f"topic-{number}", rng.randint(1, 10))
        self.subscribed = self.pick_topics()
        self.members: Members = {}
        for _ in range(rng.randint(1, 8)):
            self.join()

    def grow(self, topic: str, count: int) -> None:
        infos = self.topics.setdefault(topic, [])
        for number in range(len(infos), len(infos) + count):
            racks = self.rng.sample(RACKS, self.rng.randint(1, 2)) if self.with_racks else ()
            infos.append(PartitionInfo(number, frozenset(racks)))

    def pick_topics(self) -> tuple[str, ...]:
        known = [*self.topics, "missing"]
        return tuple(self.rng.sample(known, self.rng.randint(1, len(known))))

    def join(self) -> None:
        self.names += 1
        one = f"client-{self.rng.randrange(100)}-{self.rng.getrandbits(64):x}-{self.names}"
        self.members[one] = MemberSubscription(
            topics=self.subscribed if self.alike else self.pick_topics(),
            rack=self.rng.choice((*RACKS, None)) if self.with_racks else None,
            instance_id=f"static-{self.names}" if self.rng.random() < 0.3 else None,
            user_data=self.assignor.user_data(None, -1),
        )

    def change(self) -> None:
        """What made the group rebalance."""
        rng = self.rng
        for one in rng.sample(list(self.members), rng.randint(0, len(self.members) // 2)):
            if len(self.members) > 1:
                del self.members[one]
        for _ in range(rng.randint(0, min(4, 12 - len(self.members)))):
            self.join()
        if rng.random() < 0.2:
            self.grow(rng.choice(list(self.topics)), rng.randint(1, 3))
        if rng.random() < 0.2:
            self.subscribed = self.pick_topics()
        for one, member in self.members.items():
            if self.alike:
                self.members[one] = member._replace(topics=self.subscribed)
            elif rng.random() < 0.2:
                self.members[one] = member._replace(topics=self.pick_topics())
        if rng.random() < 0.5:
            order = list(self.members)
            rng.shuffle(order)
            self.members = {one: self.members[one] for one in order}

    def learn(self, assignment: Assignment) -> None:
        """What members know after the round, and say at the next."""
        self.generation += 1
        for one, taken in assignment.items():
            if self.untidy and self.rng.random() < 0.3:
                continue
            owned = tuple(taken)
            self.members[one] = self.members[one]._replace(
                owned=owned if self.assignor.name == "cooperative-sticky" else (),
                generation=self.generation,
                user_data=self.assignor.user_data(owned, self.generation),
            )

    def rounds(self, name: str) -> Iterator[Case]:
        for number in range(ROUNDS):
            ours = self.assignor.assign(self.topics, self.members)
            topics = {topic: list(infos) for topic, infos in self.topics.items()}
            yield Case(f"{name}, round {number}", self.assignor, topics, dict(self.members), ours)
            self.learn(ours)
            self.change()


def all_partitions(case: Case) -> set[TopicPartition]:
    """Those that somebody subscribed to."""
    wanted = {topic for member in case.members.values() for topic in member.topics}
    return {
        TopicPartition(topic, info.partition)
        for topic, infos in case.topics.items()
        for info in infos
        if topic in wanted
    }
