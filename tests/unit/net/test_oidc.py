"""Tokens by the client credentials grant, from servers that behave and others."""

from __future__ import annotations

import base64
import json
import pickle
import ssl
from pathlib import Path
from typing import Any

import pytest

from kclient.deadline import Deadline
from kclient.errors import AuthenticationError, KafkaError, KafkaTimeout, TransportError
from kclient.net.oidc import MAX_BYTES, ClientCredentials
from kclient.net.tls import trusting
from kclient.net.tokens import Token, TokenSource
from kclient.testing.certificates import CertificateAuthority

from .https_server import Answer, http, https_server

SECRET = "Top:Secret/9"
GOOD = http(json.dumps({"access_token": "abc.def", "expires_in": 300}).encode())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("oidc"))


def client(url: str, authority: CertificateAuthority, **options: Any) -> ClientCredentials:
    tls = trusting(str(authority.certificate), system=True)
    return ClientCredentials(url, "my client", SECRET, tls=tls, clock=lambda: 1000.0, **options)


def fetched(answer: Answer | bytes, authority: CertificateAuthority, timeout: float = 10) -> Token:
    with https_server(authority, answer) as server:
        return client(server.url, authority).fetch(Deadline(timeout))


def failure(
    kind: type[KafkaError],
    answer: Answer | bytes,
    authority: CertificateAuthority,
    timeout: float = 10,
) -> str:
    with pytest.raises(kind) as refused:
        fetched(answer, authority, timeout)
    error: Any = pickle.loads(pickle.dumps(refused.value))
    assert error.stage == "oidc"
    assert str(error).startswith("https://localhost:")
    encoded = base64.b64encode(f"my client:{SECRET}".encode()).decode()
    shown = f"{error}{error!r}{vars(error)}"
    assert SECRET not in shown
    assert encoded not in shown
    return str(error)


def test_a_token_and_when_it_ends(authority: CertificateAuthority) -> None:
    assert fetched(GOOD, authority) == Token("abc.def", 1300.0)


def test_what_is_asked(authority: CertificateAuthority) -> None:
    with https_server(authority, GOOD) as server:
        client(server.url, authority, scope="kafka read").fetch(Deadline(10))
        client(server.url, authority, urlencode_header=True).fetch(Deadline(10))
    (first, second), where = server.requests, server.url.split("/")[2]
    login = base64.b64encode(f"my client:{SECRET}".encode()).decode()
    assert first.decode() == "\r\n".join(
        (
            "POST /token?tenant=1 HTTP/1.1",
            f"Host: {where}",
            f"Authorization: Basic {login}",
            "Content-Type: application/x-www-form-urlencoded",
            "Content-Length: 46",
            "Accept: application/json",
            "User-Agent: kclient",
            "Connection: close",
            "",
            "grant_type=client_credentials&scope=kafka+read",
        )
    )
    encoded = base64.b64encode(b"my+client:Top%3ASecret%2F9")
    assert b"Authorization: Basic " + encoded in second
    assert second.endswith(b"\r\n\r\ngrant_type=client_credentials")


def test_an_answer_in_chunks(authority: CertificateAuthority) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert fetched(head + b'17\r\n{"access_token": "abc"}\r\n0\r\n\r\n', authority).value == "abc"


@pytest.mark.parametrize("lasts", [None, 0, -5, True, "300"])
def test_a_token_that_says_nothing_of_its_end(authority: CertificateAuthority, lasts: Any) -> None:
    body = json.dumps({"access_token": "abc", "expires_in": lasts}).encode()
    assert fetched(http(body), authority) == Token("abc", None)


@pytest.mark.parametrize(
    "body",
    [b"", b"not json", b"[]", b"{}", b'{"access_token": 7}', b'{"access_token": ""}', b"[" * 9999],
)
def test_an_answer_without_a_token(authority: CertificateAuthority, body: bytes) -> None:
    said = failure(AuthenticationError, http(body), authority)
    assert "answered without an access_token" in said


def test_a_client_that_is_refused(authority: CertificateAuthority) -> None:
    body = b'{"error": "invalid_client", "error_description": "unknown client"}'
    said = failure(AuthenticationError, http(body, "401 Unauthorized"), authority)
    assert "HTTP 401, 'invalid_client: unknown client'" in said
    assert "check sasl_oauthbearer_client_id" in said
    assert "HTTP 403)" in failure(AuthenticationError, http(b"no", "403 Forbidden"), authority)


@pytest.mark.parametrize(
    "location", ["http://elsewhere.test/", "https://elsewhere.test/", "file:///etc/passwd"]
)
def test_no_redirect_is_followed(authority: CertificateAuthority, location: str) -> None:
    answer = http(b"", "302 Found", f"Location: {location}")
    said = failure(AuthenticationError, answer, authority)
    assert "it redirects (HTTP 302), which is not followed" in said


@pytest.mark.parametrize("status", ["500 Oops", "503 Later", "429 Too Many Requests"])
def test_a_provider_in_trouble_may_be_asked_again(
    authority: CertificateAuthority, status: str
) -> None:
    assert f"HTTP {status[:3]}" in failure(TransportError, http(b"", status), authority)
    assert TransportError.retriable


def test_an_answer_that_is_cut_short_or_is_no_http(authority: CertificateAuthority) -> None:
    assert "IncompleteRead" in failure(TransportError, GOOD[:-5], authority)
    assert "no token" in failure(TransportError, b"SSH-2.0-x\r\n", authority)
    assert "no token" in failure(TransportError, b"", authority)


def test_an_answer_without_end(authority: CertificateAuthority) -> None:
    def flood(tls: ssl.SSLSocket) -> None:
        tls.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            tls.sendall(bytes(65536))

    said = failure(AuthenticationError, flood, authority)
    assert f"more than {MAX_BYTES} bytes" in said


@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_a_server_that_drips(authority: CertificateAuthority, start: bytes) -> None:
    with https_server(authority, b"") as server:

        def drip(tls: ssl.SSLSocket) -> None:
            tls.sendall(start)
            while not server.over.wait(0.02):
                tls.sendall(b"x")

        server.answer = drip
        with pytest.raises(KafkaTimeout, match="did not answer within 0.3 s"):
            client(server.url, authority).fetch(Deadline(0.3))


def test_a_server_that_never_answers(authority: CertificateAuthority) -> None:
    with https_server(authority, b"") as server:

        def wait(_tls: ssl.SSLSocket) -> None:
            server.over.wait(10)

        server.answer = wait
        with pytest.raises(KafkaTimeout, match="did not answer within 0.3 s"):
            client(server.url, authority).fetch(Deadline(0.3))


def test_a_server_whose_certificate_nobody_vouches_for(
    authority: CertificateAuthority, tmp_path: Path
) -> None:
    with https_server(authority, GOOD) as server:
        other = CertificateAuthority(tmp_path, "another CA")
        with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED.*ssl_cafile"):
            client(server.url, other).fetch(Deadline(10))
        assert server.requests == []


def test_a_server_that_is_not_there(authority: CertificateAuthority) -> None:
    with https_server(authority, GOOD) as server:
        pass
    with pytest.raises(TransportError, match="ConnectionRefusedError"):
        client(server.url, authority).fetch(Deadline(10))


def test_the_repr_shows_no_secret(authority: CertificateAuthority) -> None:
    shown = repr(client("https://issuer.test/", authority))
    assert shown == "<OIDC client 'my client' of https://issuer.test/>"
    assert repr(Token(SECRET, 5.0)) == "Token([hidden], ends_at=5.0)"


# --- how long a token is used ---


def test_a_token_is_kept_for_most_of_its_life() -> None:
    now, made = 1000.0, 0

    def fetch(_deadline: Deadline) -> Token:
        nonlocal made
        made += 1
        return Token(f"token{made}", now + 100)

    source = TokenSource(fetch, clock=lambda: now)
    assert source.token(Deadline(1)) == "token1"
    now = 1079.9
    assert source.token(Deadline(1)) == "token1"
    now = 1080.0
    assert source.token(Deadline(1)) == "token2"
    now = 1159.9
    assert source.token(Deadline(1)) == "token2"


@pytest.mark.parametrize("ends_at", [None, 999.0])
def test_a_token_without_an_end_or_past_it_is_not_kept(ends_at: float | None) -> None:
    made: list[str] = []

    def fetch(_deadline: Deadline) -> Token:
        made.append("token")
        return Token("token", ends_at)

    source = TokenSource(fetch, clock=lambda: 1000.0)
    assert [source.token(Deadline(1)) for _ in range(3)] == made == ["token"] * 3


def test_a_failure_leaves_no_token_behind() -> None:
    answers: list[Token | Exception] = [AuthenticationError("no"), Token("good", 2000.0)]

    def fetch(_deadline: Deadline) -> Token:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    source = TokenSource(fetch, clock=lambda: 1000.0)
    with pytest.raises(AuthenticationError):
        source.token(Deadline(1))
    assert source.token(Deadline(1)) == source.token(Deadline(1)) == "good"
