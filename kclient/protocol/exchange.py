"""Frames: a length, a header, a message. Requests out, responses in, matched by number."""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from kclient.errors import ProtocolError
from kclient.protocol import RESPONSES, request_header_version, response_header_version
from kclient.protocol.messages.headers import ResponseHeader
from kclient.protocol.wire import Buffer, Message

LENGTH = Struct(">i")
"""In front of every frame; counts what follows it."""

_START = Struct(">ihhi")  # length, API key, version, correlation id
_SMALL = 16 * 1024  # joining pieces up to this size is cheaper than handing each to the system


def request_frame(
    request: Message, version: int, correlation_id: int, client_id: str
) -> list[Buffer]:
    """A request as pieces to send in order; large ones are not copied.

    Raises UnsupportedVersion or ProtocolError if the request has no encoding in ``version``.
    """
    api_key = _api_key(type(request))
    name = _header_end(client_id, request_header_version(api_key, version))
    parts = request.encode_parts(version)
    size = _START.size - LENGTH.size + len(name) + sum(map(len, parts))
    if size > 0x7FFFFFFF:
        raise ProtocolError(f"a {type(request).__name__} of {size} bytes does not fit a frame")
    start = _START.pack(size, api_key, version, correlation_id) + name
    return _joined([start, *parts])


def correlation_id(frame: Buffer) -> int:
    """The number of the request that this frame (without its length) answers."""
    if len(frame) < LENGTH.size:
        raise ProtocolError(f"a response of {len(frame)} bytes has no correlation id")
    number: int = LENGTH.unpack_from(frame)[0]
    return number


def decode_response(request: type[Message], version: int, frame: Buffer) -> Message:
    """The answer to a ``request`` sent in ``version``.

    Raises ProtocolError if the frame holds anything else.
    """
    api_key = _api_key(request)
    header_version = response_header_version(api_key, version)
    _, pos = ResponseHeader.decode_at(frame, 0, header_version)
    return RESPONSES[api_key].decode(memoryview(frame)[pos:], version)


def _api_key(request: type[Message]) -> int:
    if request.API_KEY is None:
        raise ProtocolError(f"{request.__name__} is not a request")
    return request.API_KEY


@lru_cache(maxsize=256)
def _header_end(client_id: str, header_version: int) -> bytes:
    """What follows the correlation id: the same for every request of a client."""
    if header_version == 0:
        return b""
    name = client_id.encode()
    if len(name) > 0x7FFF:
        raise ProtocolError(f"a client id of {len(name)} bytes: the protocol ends at 32767")
    return len(name).to_bytes(2, "big") + name + b"\0" * (header_version == 2)


def _joined(parts: list[Buffer]) -> list[Buffer]:
    """Join runs of small pieces."""
    if sum(map(len, parts)) <= _SMALL:
        return [b"".join(parts)]
    joined: list[Buffer] = []
    run: list[Buffer] = []
    for part in parts:
        if len(part) <= _SMALL:
            run.append(part)
            continue
        joined += (b"".join(run), part)
        run = []
    return [*joined, b"".join(run)] if run else joined
