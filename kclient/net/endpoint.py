"""Where a broker is."""

from __future__ import annotations

from typing import NamedTuple


class Endpoint(NamedTuple):
    """A broker's address. Those of ``bootstrap_servers`` have negative node ids."""

    node: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """``host:port``; an IPv6 address stands in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_bootstrap(self) -> bool:
        """Whether a user gave the address, not a broker."""
        return self.node < 0

    def __str__(self) -> str:
        return self.address if self.is_bootstrap else f"broker {self.node} at {self.address}"
