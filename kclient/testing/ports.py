"""Ports on the loopback that no other cluster, process or outgoing connection will take."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from kclient.errors import KafkaError

HOST = "127.0.0.1"
HOST_NAME = "localhost"
# Below the range from which systems number outgoing connections (32768 up on Linux, 49152 up
# elsewhere): there, a port found free may be in use a second later, when the JVM binds it.
_RANGE = range(20_000, 32_000)


class PortLease:
    """One port, ours until ``release()``, also while no broker listens on it.

    A lock on a file named after the port keeps the other processes of this user away, and
    dies with this process.
    """

    def __init__(self, port: int, descriptor: int) -> None:
        self.port = port
        self._descriptor = descriptor

    def release(self) -> None:
        """Give the port back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def lease_port() -> PortLease:
    """Take a free port. Raises KafkaError if there is none in the whole range."""
    folder = Path(tempfile.gettempdir(), f"kclient-ports-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    for port in random.sample(_RANGE, len(_RANGE)):
        descriptor = os.open(folder / str(port), os.O_CREAT | os.O_RDWR, 0o600)
        if _lock(descriptor) and _is_free(port):
            return PortLease(port, descriptor)
        os.close(descriptor)
    raise KafkaError(f"no free port from {_RANGE.start} to {_RANGE.stop - 1} on {HOST}")


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As brokers do: connections that linger in TIME_WAIT do not make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
