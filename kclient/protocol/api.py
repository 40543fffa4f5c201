"""What an API is: its number, name, and the versions kclient speaks."""

from __future__ import annotations

from typing import NamedTuple


class Api(NamedTuple):
    """One of Kafka's APIs. Request and response speak the same versions."""

    key: int
    name: str
    versions: tuple[int, int]
    stable: int
    """The highest version that Kafka has declared stable."""
    flexible: int
    """The first version with compact lengths and tagged fields."""
