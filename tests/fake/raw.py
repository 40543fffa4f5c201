"""A client of one socket, without retries or opinions: requests out, answers in."""

from __future__ import annotations

import socket
from typing import Any, TypeVar

from kclient.protocol import Message
from kclient.protocol.exchange import LENGTH, correlation_id, decode_response, request_frame

A = TypeVar("A", bound=Message)


class RawClient:
    def __init__(self, address: str, *, client_id: str = "raw", timeout: float = 10) -> None:
        host, port = address.split(":")
        self.sock = socket.create_connection((host, int(port)), timeout=timeout)
        self._client_id = client_id
        self._sent = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.sock.close()

    def send(self, request: Message, version: int) -> int:
        self._sent += 1
        self.sock.sendall(b"".join(request_frame(request, version, self._sent, self._client_id)))
        return self._sent

    def receive_frame(self) -> bytes:
        (size,) = LENGTH.unpack(self._read(LENGTH.size))
        return self._read(size)

    def ask(self, request: Message, version: int, answer: type[A]) -> A:
        """Send, and return the answer, which must be to this request."""
        number = self.send(request, version)
        frame = self.receive_frame()
        assert correlation_id(frame) == number
        decoded = decode_response(type(request), version, frame)
        assert isinstance(decoded, answer)
        return decoded

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.sock.recv(size - len(data))
            if not piece:
                raise EOFError(f"the broker hung up after {len(data)} of {size} bytes")
            data += piece
        return data


def only(items: list[Any] | None) -> Any:
    """The one item that there must be."""
    assert items is not None
    assert len(items) == 1
    return items[0]
