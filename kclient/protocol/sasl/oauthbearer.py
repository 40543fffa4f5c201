"""OAUTHBEARER (RFC 7628): a token that somebody else issued, and extensions (KIP-342)."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping

from kclient.errors import AuthenticationError, ConfigError

_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # RFC 6750
_KEY = re.compile(r"[A-Za-z]+")
_VALUE = re.compile(r"[\x21-\x7E \t\r\n]+")
_END = "\x01"
_GIVE_UP = b"\x01"


class OAuthBearer:
    """Log in by a bearer token."""

    name = "OAUTHBEARER"

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        """Raises AuthenticationError for text that is no token, ConfigError for extensions."""
        if not _TOKEN.fullmatch(token):
            raise AuthenticationError(
                f"the OAuth token of {len(token)} characters is empty or holds some that no "
                "bearer token has (RFC 6750); check what the token provider returns"
            )
        self.identity = "the bearer of an OAuth token"
        pairs = check_extensions(extensions or {})
        self._token = "".join(
            f"{part}{_END}" for part in ("n,,", f"auth=Bearer {token}", *pairs, "")
        ).encode()

    def exchange(self) -> Generator[bytes, bytes, None]:
        """One token. A refusal comes as JSON, and must be acknowledged before it counts.

        Raises AuthenticationError.
        """
        refusal = yield self._token
        if refusal:
            yield _GIVE_UP
            shown = refusal[:200].decode(errors="replace")
            raise AuthenticationError(f"the broker refused the OAuth token: {shown!r}")

    def __repr__(self) -> str:
        return f"<{self.name} as {self.identity}>"


def check_extensions(extensions: Mapping[str, str]) -> list[str]:
    """The extensions as they are sent. Raises ConfigError for one that cannot be."""
    for key, value in extensions.items():
        if not _KEY.fullmatch(key) or key == "auth":
            raise ConfigError(f"{key!r} cannot be the name of an OAUTHBEARER extension")
        if not _VALUE.fullmatch(value):
            raise ConfigError(f"the OAUTHBEARER extension {key!r} has a value that cannot be sent")
    return [f"{key}={value}" for key, value in extensions.items()]
