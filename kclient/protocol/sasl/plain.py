"""PLAIN (RFC 4616): name and password as they are. Only TLS keeps them from listeners."""

from __future__ import annotations

from collections.abc import Generator

from kclient.errors import ConfigError
from kclient.protocol.sasl.mechanism import user


class Plain:
    """Log in by name and password."""

    name = "PLAIN"

    def __init__(self, username: str, password: str) -> None:
        """Raises ConfigError for a NUL, which separates the two on the wire."""
        if "\0" in username or "\0" in password:
            raise ConfigError("a name or password of SASL PLAIN cannot hold a NUL character")
        self.identity = user(username)
        self._token = f"\0{username}\0{password}".encode()

    def exchange(self) -> Generator[bytes, bytes, None]:
        """One token. The broker's answer is empty: its refusals come as errors."""
        yield self._token

    def __repr__(self) -> str:
        return f"<{self.name} as {self.identity}>"
