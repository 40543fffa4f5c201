"""Which broker a request is for."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kclient.types import TopicPartition


class CoordinatorKind(IntEnum):
    """What a coordinator coordinates, as FindCoordinator numbers it."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Anywhere(NamedTuple):
    """Any broker will do."""

    def __str__(self) -> str:
        return "any broker"


class Controller(NamedTuple):
    """The cluster's controller, or on KRaft a broker that passes requests on to it."""

    def __str__(self) -> str:
        return "the controller"


class Node(NamedTuple):
    """One broker."""

    node: int

    def __str__(self) -> str:
        return f"broker {self.node}"


class Leader(NamedTuple):
    """The leader of a partition."""

    tp: TopicPartition

    def __str__(self) -> str:
        return f"the leader of {self.tp.topic}[{self.tp.partition}]"


class Coordinator(NamedTuple):
    """The coordinator of a group or transactional id."""

    kind: CoordinatorKind
    key: str

    def __str__(self) -> str:
        return f"the coordinator of {self.kind.name.lower()} {self.key!r}"


Target = Anywhere | Controller | Node | Leader | Coordinator
ANY, CONTROLLER = Anywhere(), Controller()
