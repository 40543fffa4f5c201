"""A server that speaks TLS and answers as it is told, for what asks for tokens."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from kclient.testing.certificates import CertificateAuthority

Answer = Callable[[ssl.SSLSocket], None]


class HttpsServer:
    """Serves one connection at a time; ``requests`` is what came, whole."""

    def __init__(self, authority: CertificateAuthority, answer: Answer) -> None:
        pair = authority.issue()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.certificate, pair.key)
        self.answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.requests: list[bytes] = []
        self.over = threading.Event()
        self.url = f"https://localhost:{self._listening.getsockname()[1]}/token?tenant=1"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.over.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listening.close()

    def _serve(self) -> None:
        while not self.over.is_set():
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            sock.settimeout(20)
            # A client that refuses us, or hangs up, is no failure of the server.
            with sock, suppress(OSError), self._context.wrap_socket(sock, server_side=True) as tls:
                self.requests.append(_request(tls))
                self.answer(tls)


def _request(tls: ssl.SSLSocket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += tls.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    while len(body) < size:
        body += tls.recv(65536)
    return head + b"\r\n\r\n" + body


@contextmanager
def https_server(authority: CertificateAuthority, answer: Answer | bytes) -> Iterator[HttpsServer]:
    """Run one that answers with these bytes, or as the callable does."""
    if isinstance(answer, bytes):
        said = answer
        server = HttpsServer(authority, lambda tls: tls.sendall(said))
    else:
        server = HttpsServer(authority, answer)
    try:
        yield server
    finally:
        server.close()


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body
