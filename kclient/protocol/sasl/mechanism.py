"""What every way to log in has in common."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol


class Mechanism(Protocol):
    """One login. ``identity`` says who logs in, for messages; it holds no secret."""

    name: str
    identity: str

    def exchange(self) -> Generator[bytes, bytes, None]:
        """Yield each token for the broker and be sent its answer; return when both agree.

        Raises AuthenticationError for an answer that proves nothing, or is an error.
        """
        ...


def user(name: str) -> str:
    """The identity of somebody who has a name and a password."""
    return f"user {name!r}"
