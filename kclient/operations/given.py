"""What users hand in, checked by Kafka's own rules before anything is sent."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from kclient.errors import InvalidRequest, UnsupportedVersion
from kclient.protocol.wire import ZERO_UUID
from kclient.types import TopicPartition

T = TypeVar("T")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_INVALID_TOPIC = 17
INT16_MAX = (1 << 15) - 1
NO_OPERATIONS = -(1 << 31)


def check_topic(name: str) -> str:
    """The name, if a topic may have it. Raises InvalidRequest with the rule."""
    if not isinstance(name, str) or not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise InvalidRequest(
            f"no topic can be called {name!r}: a name has 1 to 249 characters out of a-z, A-Z, "
            "0-9, '.', '_' and '-', and is neither '.' nor '..'",
            _INVALID_TOPIC,
        )
    return name


def several(given: Iterable[T], what: str) -> list[T]:
    """The items, each once. Raises InvalidRequest for a string where a list is due."""
    if isinstance(given, (str, bytes)):
        raise InvalidRequest(f"give a list of {what}, not {given!r}: [{given!r}] for one")
    return list(dict.fromkeys(given))


def partitions(given: Iterable[tuple[str, int]]) -> list[TopicPartition]:
    """The partitions, each once; a pair will do. Raises InvalidRequest for anything else."""
    found = []
    for each in several(given, "TopicPartition"):
        if not isinstance(each, tuple) or len(each) != 2 or not isinstance(each[1], int):
            raise InvalidRequest(f"give TopicPartition(topic, partition), not {each!r}")
        check_topic(each[0])
        if each[1] < 0:
            raise InvalidRequest(f"partitions are numbered from 0: {each!r}")
        found.append(TopicPartition(*each))
    return found


def by_topic(tps: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    """Partitions by topic."""
    grouped: dict[str, list[TopicPartition]] = {}
    for tp in tps:
        grouped.setdefault(tp.topic, []).append(tp)
    return grouped


def numbers_by_topic(tps: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, as many requests list them."""
    return {topic: [tp.partition for tp in group] for topic, group in by_topic(tps).items()}


def code_of(codes: Mapping[str, int], name: str, what: str) -> int:
    """The number that the protocol has for a name.

    Raises InvalidRequest with the names there are, and the nearest.
    """
    if name in codes:
        return codes[name]
    close = difflib.get_close_matches(str(name), codes, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise InvalidRequest(f"{name!r} is no {what}: {hint}there are {', '.join(codes)}")


def name_of(codes: Mapping[str, int], code: int) -> str:
    """The name of a number; one that is newer than this client keeps its number."""
    return next((name for name, known in codes.items() if known == code), f"unknown_{code}")


def text_of(value: object) -> str:
    """A config value as Kafka writes it: True is ``true``, a list has commas."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return ",".join(text_of(each) for each in value)
    return str(value)


def need(version: int, least: int, what: str, kafka: str) -> None:
    """Raise UnsupportedVersion if the broker's version of an API is below ``least``."""
    if version < least:
        raise UnsupportedVersion(f"the broker cannot {what}: Kafka can since {kafka}")


def known_id(topic_id: UUID) -> UUID | None:
    """None for the id that stands for none."""
    return None if topic_id == ZERO_UUID else topic_id


OPERATIONS = {
    "any": 1,
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster_action": 9,
    "describe_configs": 10,
    "alter_configs": 11,
    "idempotent_write": 12,
    "create_tokens": 13,
    "describe_tokens": 14,
    "two_phase_commit": 15,
}
"""What an ACL is about, and what a broker says this user may do."""


def operations_of(bits: int) -> frozenset[str] | None:
    """The names of the operations in a bit field, None if the broker did not say."""
    if bits == NO_OPERATIONS:
        return None
    return frozenset(
        name_of(OPERATIONS, number) for number in range(bits.bit_length()) if bits >> number & 1
    )
