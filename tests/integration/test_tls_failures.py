"""What goes wrong with TLS, and whether the error says what to do about it."""

from __future__ import annotations

import pickle
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kclient.deadline import Deadline
from kclient.errors import (
    AuthenticationError,
    KafkaError,
    KafkaTimeout,
    ProtocolError,
    TransportError,
)
from kclient.net import stream
from kclient.net.handshake import shake_hands, tls_failure
from kclient.testing.certificates import CertificateAuthority

from .logins import Secured, connect


def failure(kind: type[KafkaError], address: str, stage: str | None = "tls", **given: Any) -> str:
    """Fail to connect by TLS; the message, which names the address."""
    with pytest.raises(kind) as refused:
        connect(address, **{"security_protocol": "SSL", **given})
    error: Any = pickle.loads(pickle.dumps(refused.value))
    assert str(error).startswith(address)
    assert stage is None or (error.stage, error.address) == (stage, address)
    return str(error)


def test_a_ca_that_nobody_told_us_of(secured: Secured) -> None:
    said = failure(AuthenticationError, secured.kafka.listener("SSL"))
    assert (
        "unable to get local issuer certificate; give the CA that signed it as ssl_cafile" in said
    )


def test_another_ca(secured: Secured, tmp_path: Path) -> None:
    other = CertificateAuthority(tmp_path, "another CA").certificate
    said = failure(AuthenticationError, secured.kafka.listener("SSL"), ssl_cafile=str(other))
    assert "give the CA that signed it as ssl_cafile" in said


def test_a_certificate_that_has_expired(secured: Secured) -> None:
    address = secured.kafka.listener("EXPIRED")
    said = failure(AuthenticationError, address, ssl_cafile=secured.ca)
    assert "certificate has expired; renew it, or set this machine's clock" in said


def test_a_certificate_for_another_host(secured: Secured) -> None:
    address = secured.kafka.listener("ELSEWHERE")
    said = failure(AuthenticationError, address, ssl_cafile=secured.ca)
    assert "not valid for 'localhost'; connect by a name that it holds" in said
    address = address.replace("localhost", "127.0.0.1")
    said = failure(AuthenticationError, address, ssl_cafile=secured.ca)
    assert "not valid for '127.0.0.1'; connect by a name that it holds" in said


def test_the_name_can_be_left_unchecked_but_not_the_signature(
    secured: Secured, tmp_path: Path
) -> None:
    address = secured.kafka.listener("ELSEWHERE")
    chosen = {"security_protocol": "SSL", "ssl_cafile": secured.ca, "ssl_check_hostname": False}
    connect(address, **chosen).close()
    other = str(CertificateAuthority(tmp_path).certificate)
    failure(AuthenticationError, address, ssl_cafile=other, ssl_check_hostname=False)


def test_a_certificate_that_holds_the_address(secured: Secured) -> None:
    address = secured.kafka.listener("SSL").replace("localhost", "127.0.0.1")
    connect(address, security_protocol="SSL", ssl_cafile=secured.ca).close()


def test_a_broker_that_wants_a_client_certificate(secured: Secured) -> None:
    said = failure(AuthenticationError, secured.kafka.listener("MTLS"), ssl_cafile=secured.ca)
    assert "wants a client certificate" in said
    assert "ssl_certfile" in said


def test_a_client_certificate_of_a_ca_unknown_to_the_broker(
    secured: Secured, tmp_path: Path
) -> None:
    pair = CertificateAuthority(tmp_path, "another CA").issue("mallory", hosts=())
    said = failure(
        AuthenticationError,
        secured.kafka.listener("MTLS"),
        ssl_cafile=secured.ca,
        ssl_certfile=str(pair.certificate),
        ssl_keyfile=str(pair.key),
    )
    assert "client certificate" in said


def test_tls_to_a_plaintext_port(secured: Secured) -> None:
    said = failure(TransportError, secured.kafka.bootstrap_servers, ssl_cafile=secured.ca)
    assert "as a plaintext port does; check security_protocol and the port" in said


def test_plaintext_to_a_tls_port(secured: Secured) -> None:
    said = failure(
        ProtocolError, secured.kafka.listener("SSL"), None, security_protocol="PLAINTEXT"
    )
    assert "it speaks TLS: set security_protocol to SSL or SASL_SSL" in said


def test_a_login_in_plaintext_to_a_tls_port(secured: Secured) -> None:
    said = failure(
        ProtocolError,
        secured.kafka.listener("SASL_SSL"),
        None,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="alice",
        sasl_plain_password="TopSecret",
    )
    assert "it speaks TLS" in said
    assert "TopSecret" not in said


def test_a_context_of_the_users_own(secured: Secured) -> None:
    address = secured.kafka.listener("SSL")
    context = ssl.create_default_context(cafile=secured.ca)
    connect(address, security_protocol="SSL", ssl_context=context).close()
    assert context.session_stats()["connect_good"] == 1


# --- servers that are no brokers ---


@contextmanager
def server(serve: Any) -> Iterator[str]:
    """Run ``serve(socket)`` for one connection in a thread; yields the address."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        sock, _ = listening.accept()
        with sock:
            serve(sock)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"localhost:{listening.getsockname()[1]}"
    finally:
        thread.join(10)
        listening.close()


def tls_server(authority: CertificateAuthority, **chosen: Any) -> ssl.SSLContext:
    pair = authority.issue()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    for name, value in chosen.items():
        setattr(context, name, value)
    return context


def reach(address: str, ca: str, timeout: float = 10.0) -> None:
    host, port = address.split(":")
    context = ssl.create_default_context(cafile=ca)
    stream.connect(host, int(port), Deadline(timeout), tls=context).close()


def test_a_server_that_answers_in_plain_text(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    with (
        server(lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as address,
        pytest.raises(TransportError, match="this port does not speak TLS; set security_protocol"),
    ):
        reach(address, str(authority.certificate))


def test_a_server_that_never_answers(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    over = threading.Event()
    with server(lambda sock: over.wait(20)) as address:
        with pytest.raises(KafkaTimeout, match="no answer to the TLS handshake") as late:
            reach(address, str(authority.certificate), timeout=0.3)
        over.set()
    assert late.value.stage == "tls"  # type: ignore[attr-defined]


def test_a_server_that_drips_cannot_outlast_the_deadline(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    over = threading.Event()

    def drip(sock: socket.socket) -> None:
        # The start of a long TLS record, one byte at a time: each is progress to a socket.
        for byte in b"\x16\x03\x03\x40\x00" + bytes(1000):
            if over.wait(0.02):
                return
            try:
                sock.sendall(bytes([byte]))
            except OSError:
                return

    with server(drip) as address:
        with pytest.raises(KafkaTimeout, match="no answer to the TLS handshake"):
            reach(address, str(authority.certificate), timeout=0.3)
        over.set()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_a_server_whose_tls_is_too_old(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    old = tls_server(authority)
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.maximum_version = ssl.TLSVersion.TLSv1_1

    def serve(sock: socket.socket) -> None:
        with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
            old.wrap_socket(sock, server_side=True)

    with server(serve) as address, pytest.raises(TransportError, match="no TLS 1.2 or later"):
        reach(address, str(authority.certificate))


def test_the_name_asked_for_has_no_trailing_dot(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    context, asked = tls_server(authority), []
    context.sni_callback = lambda _sock, name, _context: asked.append(name)

    def serve(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as wrapped:
            wrapped.recv(1)

    ours = ssl.create_default_context(cafile=authority.certificate)
    with server(serve) as address:
        sock = socket.create_connection(("127.0.0.1", int(address.split(":")[1])))
        shake_hands(sock, "localhost.", address, ours, Deadline(10)).close()
    assert asked == ["localhost"]


def test_an_alert_is_told_also_when_sending_fails_first(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    context = tls_server(authority, verify_mode=ssl.CERT_REQUIRED)
    context.load_verify_locations(authority.certificate)
    gone = threading.Event()

    def serve(sock: socket.socket) -> None:
        # The connection is reset behind the alert: it is refused to whoever sends before reading.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            context.wrap_socket(sock, server_side=True)
        sock.close()
        gone.set()

    ours = ssl.create_default_context(cafile=authority.certificate)
    with server(serve) as address:
        line = stream.connect("localhost", int(address.split(":")[1]), Deadline(10), tls=ours)
        assert gone.wait(10)
        with pytest.raises(AuthenticationError, match="wants a client certificate"):
            line.send([b"hello"], Deadline(10))
        line.close()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", AuthenticationError),
        ("TLSV1_ALERT_UNKNOWN_CA", AuthenticationError),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", TransportError),
        (None, TransportError),
    ],
)
def test_an_alert_is_told_by_its_name(reason: str | None, kind: type[KafkaError]) -> None:
    alert = ssl.SSLError(1, "an alert")
    alert.reason = reason  # type: ignore[assignment]
    error = tls_failure(alert, "a:1")
    assert type(error) is kind
    assert (reason or "an alert") in str(error)
