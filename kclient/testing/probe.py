"""Is it up? Asked over a plain socket, with no part of the client that is under test."""

from __future__ import annotations

import socket
import struct

from kclient.testing.ports import HOST

# Length, Metadata (api 3) v0, correlation id 7, null client id, no topics: "all of them".
# Every broker since 0.8 answers it.
_METADATA = struct.pack(">ihhihi", 14, 3, 0, 7, -1, 0)
_MAX_REPLY = 16 * 1024 * 1024


def listed_brokers(port: int, timeout: float = 2.0) -> frozenset[int] | None:
    """Ask the broker on ``port`` for the nodes it knows; None if it does not answer (well).

    A fresh 0.8 answers with no nodes until a first topic exists. ``timeout`` is in seconds.
    """
    try:
        with socket.create_connection((HOST, port), timeout=timeout) as connection:
            connection.sendall(_METADATA)
            (size,) = struct.unpack(">i", _read(connection, 4))
            if not 8 <= size <= _MAX_REPLY:
                return None
            return _node_ids(_read(connection, size))
    except (OSError, struct.error):
        return None


def zookeeper_nodes(port: int, timeout: float = 2.0) -> frozenset[str]:
    """Return the paths of the ephemeral nodes in the ZooKeeper on ``port``, none if it is down."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout) as connection:
            connection.sendall(b"dump")
            reply = b""
            while chunk := connection.recv(65536):
                reply += chunk
    except OSError:
        return frozenset()
    lines = (line.strip() for line in reply.decode(errors="replace").splitlines())
    return frozenset(line for line in lines if line.startswith("/"))


def zookeeper_answers(port: int, timeout: float = 2.0) -> bool:
    """Whether the ZooKeeper on ``port`` says that it serves."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout) as connection:
            connection.sendall(b"ruok")
            return connection.recv(4) == b"imok"
    except OSError:
        return False


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError("closed in the middle of a reply")
        data += chunk
    return bytes(data)


def _node_ids(reply: bytes) -> frozenset[int]:
    correlation, count = struct.unpack_from(">ii", reply)
    if correlation != 7:
        raise struct.error("not the answer to our question")
    pos, ids = 8, set()
    for _ in range(count):
        node, host_size = struct.unpack_from(">ih", reply, pos)
        ids.add(node)
        pos += 6 + host_size + 4
    return frozenset(ids)
