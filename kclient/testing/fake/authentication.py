"""SASL on one connection: PLAIN, and OAUTHBEARER with any token."""

from __future__ import annotations

import time
from collections.abc import Mapping
from hmac import compare_digest

from kclient.testing.fake.codes import Code, Refusal

MECHANISMS = ("PLAIN", "OAUTHBEARER")
_ALLOWED_BEFORE = frozenset({"ApiVersions", "SaslHandshake", "SaslAuthenticate"})


class Authentication:
    """Who is at the other end. ``users`` maps names to passwords; None lets everyone in."""

    def __init__(
        self, *, required: bool, users: Mapping[str, str] | None, lifetime_ms: int
    ) -> None:
        self._users = users
        self._required = required
        self._lifetime_ms = lifetime_ms
        self._mechanism: str | None = None
        self._expires: float | None = None
        self.is_done = not required
        self.takes_raw_tokens = False

    def admits(self, api: str) -> bool:
        """Whether a request may be served now; a broker hangs up on others (KIP-368)."""
        if api in _ALLOWED_BEFORE:
            return True
        return self.is_done and (self._expires is None or time.monotonic() < self._expires)

    def choose(self, mechanism: str, *, raw_tokens: bool) -> None:
        """Begin with a mechanism; ``raw_tokens`` follow it without a Kafka header."""
        if not self._required:
            raise Refusal(Code.ILLEGAL_SASL_STATE)
        if mechanism not in MECHANISMS:
            raise Refusal(Code.UNSUPPORTED_SASL_MECHANISM)
        self._mechanism = mechanism
        self.takes_raw_tokens = raw_tokens

    def step(self, token: bytes) -> int:
        """Check a token; returns the session's lifetime in ms, 0 for ever."""
        if self._mechanism is None:
            raise Refusal(Code.ILLEGAL_SASL_STATE)
        is_right = self._is_user(token) if self._mechanism == "PLAIN" else b"auth=Bearer " in token
        self._mechanism = None
        self.takes_raw_tokens = False
        if not is_right:
            self.is_done = False
            raise Refusal(Code.SASL_AUTHENTICATION_FAILED)
        self.is_done = True
        if self._lifetime_ms:
            self._expires = time.monotonic() + self._lifetime_ms / 1000
        return self._lifetime_ms

    def _is_user(self, token: bytes) -> bool:
        parts = token.split(b"\0")
        if len(parts) != 3:
            return False
        if self._users is None:
            return True
        expected = self._users.get(parts[1].decode(errors="replace"))
        return expected is not None and compare_digest(expected.encode(), parts[2])
