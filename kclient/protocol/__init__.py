"""Kafka's wire protocol, without I/O: every API and version as typed messages.

`REQUESTS` and `RESPONSES` map an API key to its message class; a message module is
imported when its class is first asked for.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping

from kclient.errors import UnsupportedVersion
from kclient.protocol.api import Api
from kclient.protocol.messages import APIS
from kclient.protocol.wire import Message, Struct

__all__ = [
    "APIS",
    "REQUESTS",
    "RESPONSES",
    "Api",
    "Message",
    "Struct",
    "request_header_version",
    "response_header_version",
]

_API_VERSIONS = 18
_CONTROLLED_SHUTDOWN = 7


class _Messages(Mapping[int, type[Message]]):
    """API key to message class, imported at first use."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._imported: dict[int, type[Message]] = {}

    def __getitem__(self, key: int) -> type[Message]:
        if key in self._imported:
            return self._imported[key]
        name = APIS[key].name
        module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        found: type[Message] = getattr(
            importlib.import_module(f"kclient.protocol.messages.{module}"), name + self._suffix
        )
        self._imported[key] = found
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(APIS)

    def __len__(self) -> int:
        return len(APIS)


REQUESTS: Mapping[int, type[Message]] = _Messages("Request")
RESPONSES: Mapping[int, type[Message]] = _Messages("Response")


def request_header_version(api_key: int, version: int) -> int:
    """The version of the request header in front of this API and version.

    Raises `UnsupportedVersion` for an API key nobody knows.
    """
    api = _api(api_key)
    if version >= api.flexible:
        return 2
    # The oldest broker-to-broker request came before headers had a client id.
    return 0 if (api_key, version) == (_CONTROLLED_SHUTDOWN, 0) else 1


def response_header_version(api_key: int, version: int) -> int:
    """The version of the response header in front of this API and version.

    ApiVersions answers with v0 always (KIP-511): a client must be able to read the answer
    of a broker that does not know the version it asked in.
    """
    api = _api(api_key)
    return 1 if version >= api.flexible and api_key != _API_VERSIONS else 0


def _api(api_key: int) -> Api:
    try:
        return APIS[api_key]
    except KeyError:
        raise UnsupportedVersion(f"API key {api_key} is not known to kclient") from None
