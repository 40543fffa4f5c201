"""``bootstrap_servers``: one string or a list, as hosts and ports."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kclient.errors import ConfigError

_PORT = 9092
_ADDRESS = re.compile(r"(?:\w+://)?(?:\[([0-9a-fA-F:.]+(?:%\w+)?)\]|([\w.-]+))(?::([0-9]+))?")


def parse_servers(servers: str | Sequence[str]) -> list[tuple[str, int]]:
    """Hosts and ports of ``"a:9092,b:9092"`` or a list of such; the port may be left out.

    An IPv6 address stands in brackets: ``[::1]:9092``. Raises ConfigError.
    """
    parts = servers.split(",") if isinstance(servers, str) else list(servers)
    found = [_parse(part.strip()) for part in parts if part.strip()]
    if not found:
        raise ConfigError("bootstrap_servers names no broker: give 'host:9092' or a list of such")
    return list(dict.fromkeys(found))


def _parse(text: str) -> tuple[str, int]:
    match = _ADDRESS.fullmatch(text)
    port = int(match[3] or _PORT) if match else 0
    if match is None or not 0 < port < 1 << 16:
        raise ConfigError(f"bootstrap_servers: {text!r} is not host:port")
    return match[1] or match[2], port
