"""The other end of a connection: a real socket, with a script for what it says."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

TIMEOUT = 20.0


class Peer:
    """A listening socket on the loopback; each connection is given to the next of its talks."""

    def __init__(self, *talks: Callable[[Line], object]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._talks = list(talks)
        self._failures: list[BaseException] = []
        self.accepted = 0
        self.port: int = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        threads = []
        for talk in self._talks:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                break
            self.accepted += 1
            threads.append(threading.Thread(target=self._talk, args=(talk, sock), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join(TIMEOUT)

    def _talk(self, talk: Callable[[Line], object], sock: socket.socket) -> None:
        sock.settimeout(TIMEOUT)
        with sock:
            try:
                talk(Line(sock))
            except BaseException as error:
                self._failures.append(error)

    def close(self) -> None:
        """Stop listening, and raise what went wrong in a talk."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(TIMEOUT)
        for failure in self._failures:
            raise failure

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self.close()
        else:
            with contextlib.suppress(Exception):
                self.close()


class Line:
    """One connection as the peer sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def request(self) -> tuple[int, int, int]:
        """Read a request: its API key, version and number."""
        (size,) = struct.unpack(">i", self._read(4))
        key, version, number = struct.unpack_from(">hhi", self._read(size))
        return key, version, number

    def answer(self, number: int, body: bytes = b"") -> None:
        """Send a frame that answers request ``number``."""
        self.sock.sendall(struct.pack(">ii", 4 + len(body), number) + body)

    def say(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.sock.sendall(data)

    def drain(self) -> None:
        """Read until the other side hangs up."""
        with contextlib.suppress(ConnectionError):
            while self.sock.recv(65536):
                pass

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.sock.recv(size - len(data))
            if not chunk:
                raise EOFError("the client hung up")
            data += chunk
        return data


@contextlib.contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected TCP sockets, ours and theirs."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname(), timeout=TIMEOUT)
        theirs, _ = listener.accept()
    theirs.settimeout(TIMEOUT)
    with ours, theirs:
        yield ours, theirs
