"""A request as the router carries it: how it is built in a version, how its answer is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kclient.protocol.wire import Message

T = TypeVar("T")


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request by its API, how to build it in a version, and how to read its answer.

    ``read`` returns the result, or raises what the answer's error code says; a retriable
    error has the whole call tried again. No version above ``at_most`` is used.
    """

    api: type[Message]
    build: Callable[[int], Message]
    read: Callable[[Message], T]
    at_most: int | None = None
