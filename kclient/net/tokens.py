"""OAuth tokens, fetched when needed and kept while they are good."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kclient.deadline import Deadline
from kclient.errors import AuthenticationError, KafkaError

REFRESH_AT = 0.8
"""The part of its life after which a token is not used again."""


class Token(NamedTuple):
    """A token; ``ends_at`` is in seconds since the epoch, None if nobody said. No repr shows it."""

    value: str
    ends_at: float | None = None

    def __repr__(self) -> str:
        return f"Token([hidden], ends_at={self.ends_at})"


class TokenSource:
    """Tokens from ``fetch``, each used for 80 % of its life; those without an end only once.

    Threads that find it old at the same time each fetch one: nobody waits for another.
    """

    def __init__(
        self, fetch: Callable[[Deadline], Token], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._kept = (Token(""), 0.0)  # and until when it is used: one value, swapped at once

    def token(self, deadline: Deadline) -> str:
        """A token that is good for now. Raises what the fetching raises."""
        kept, good_until = self._kept
        now = self._clock()
        if now >= good_until:
            kept = self._fetch(deadline)
            life = 0.0 if kept.ends_at is None else kept.ends_at - now
            self._kept = (kept, now + REFRESH_AT * life)
        return kept.value


def from_provider(provider: Callable[[], Any]) -> Callable[[Deadline], Token]:
    """What a user's callable returns, as a `Token`: a string, or a string and its end."""

    def fetch(_deadline: Deadline) -> Token:
        try:
            made = provider()
        except KafkaError:
            raise
        except Exception as error:
            raise AuthenticationError(
                f"sasl_oauth_token_provider failed with {type(error).__name__}: {error}"
            ) from error
        value, ends_at = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        if not isinstance(value, str) or not isinstance(ends_at, (int, float, type(None))):
            raise AuthenticationError(
                "sasl_oauth_token_provider returns a string, or a string and the seconds since "
                f"the epoch when it ends, not {type(made).__name__}"
            )
        return Token(value, ends_at)

    return fetch
