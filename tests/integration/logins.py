"""A broker with a port for every way to log in, and connections made by a client's options."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple, cast

from kclient.config import ClientOptions, resolve
from kclient.deadline import Deadline
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.opening import Opener
from kclient.net.security import Security
from kclient.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)
from kclient.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kclient.testing import LocalKafka
from kclient.testing.certificates import CertificateAuthority, openssl

from .exchange import Wire

PASSWORD = "TopSecret-9"
SCRAM = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
ISSUER, AUDIENCE = "https://issuer.test", "kafka-tests"
SESSION_MS = 3_000
_MODULE = "org.apache.kafka.common.security"
_PLAIN = f'{_MODULE}.plain.PlainLoginModule required user_alice="{PASSWORD}" user_bob="x";'
_SCRAM = f"{_MODULE}.scram.ScramLoginModule required;"
_OAUTH = f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required"
_VALIDATOR = f"{_MODULE}.oauthbearer.OAuthBearerValidatorCallbackHandler"


class Secured(NamedTuple):
    """The broker, the authority of its certificates, and what signs tokens for it."""

    kafka: LocalKafka
    authority: CertificateAuthority
    jwt_key: Path

    @property
    def ca(self) -> str:
        return str(self.authority.certificate)


def start_secured(folder: Path, factory: Callable[..., LocalKafka]) -> Secured:
    """Start it, with the users alice (PLAIN and SCRAM) and bob."""
    authority = CertificateAuthority(folder)
    key = folder / "jwt.key"
    openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(key))
    keys = folder / "jwks.json"
    keys.write_text(json.dumps({"keys": [public_key(key)]}))
    kafka = factory(
        listeners=_listeners(authority, keys),
        properties={"delegation.token.secret.key": secrets.token_hex(16)},
        jvm_flags=[f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys.as_uri()}"],
    )
    for mechanism in SCRAM:
        add_scram_user(kafka, mechanism, "alice", PASSWORD)
    return Secured(kafka, authority, key)


def _listeners(authority: CertificateAuthority, keys: Path) -> dict[str, dict[str, Any]]:
    def tls(**chosen: Any) -> dict[str, Any]:
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": authority.issue(**chosen).store,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": authority.certificate,
        }

    passwords = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "plain.sasl.jaas.config": _PLAIN,
        "scram-sha-256.sasl.jaas.config": _SCRAM,
        "scram-sha-512.sasl.jaas.config": _SCRAM,
    }
    sessions = {"security.protocol": "SASL_PLAINTEXT", **passwords}
    return {
        "SSL": tls(),
        "MTLS": {"security.protocol": "SSL", **tls(), "ssl.client.auth": "required"},
        "EXPIRED": {"security.protocol": "SSL", **tls(expired=True)},
        "ELSEWHERE": {"security.protocol": "SSL", **tls(hosts=["kafka.elsewhere.test"])},
        "SASL_PLAINTEXT": passwords,
        "SASL_SSL": {**passwords, **tls()},
        "SHORT": {**sessions, "plain.connections.max.reauth.ms": SESSION_MS},
        "LONG": {**sessions, "plain.connections.max.reauth.ms": 600_000},
        "UNSIGNED": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f'{_OAUTH} unsecuredLoginStringClaim_sub="broker";',
        },
        "SIGNED": {
            "security.protocol": "SASL_SSL",
            **tls(),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f'{_OAUTH} unsecuredLoginStringClaim_sub="broker";',
            "oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        },
    }


def add_scram_user(kafka: LocalKafka, mechanism: str, name: str, password: str) -> None:
    number, hashed = SCRAM[mechanism]
    salt, iterations = secrets.token_bytes(16), 4096
    request = AlterUserScramCredentialsRequest(
        upsertions=[
            ScramCredentialUpsertion(
                name=name,
                mechanism=number,
                iterations=iterations,
                salt=salt,
                salted_password=hashlib.pbkdf2_hmac(hashed, password.encode(), salt, iterations),
            )
        ]
    )
    with Wire(kafka.bootstrap_servers) as wire:
        answer = wire.ask(request, AlterUserScramCredentialsResponse, 0)
    assert [result.error_code for result in answer.results] == [0]


# --- connections ---


def options(address: str, **given: Any) -> ClientOptions:
    return resolve(ClientOptions, {"bootstrap_servers": address, **given})


def opener(address: str, **given: Any) -> Opener:
    chosen = options(address, **given)
    return Opener(chosen, Security.from_options(chosen))


def connect(address: str, **given: Any) -> Connection:
    """Open a connection as a client with these options would."""
    return opener(address, **given).open(endpoint(address), Deadline(30))


def endpoint(address: str) -> Endpoint:
    host, port = address.rsplit(":", 1)
    return Endpoint(-1, host, int(port))


def create_token(connection: Connection) -> CreateDelegationTokenResponse:
    """A delegation token for whoever is logged in."""
    request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
    version = connection.version_of(CreateDelegationTokenRequest)
    answer = cast(CreateDelegationTokenResponse, connection.ask(request, version, Deadline(30)))
    assert answer.error_code == 0
    return answer


def who_am_i(connection: Connection) -> str:
    """The name the broker knows us by, which it tells with a delegation token."""
    return create_token(connection).principal_name


def login_name(address: str, **given: Any) -> str:
    """Log in with these options; the name the broker knows us by then."""
    connection = connect(address, **given)
    try:
        return who_am_i(connection)
    finally:
        connection.close()


# --- tokens of OAuth ---


def public_key(key: Path) -> dict[str, str]:
    """The public half of an RSA key as a JWK."""
    modulus = openssl("rsa", "-in", str(key), "-noout", "-modulus").decode().strip()
    number = bytes.fromhex(modulus.removeprefix("Modulus="))
    exponent = (65537).to_bytes(3, "big")
    about = {"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256"}
    return {**about, "n": _base64(number), "e": _base64(exponent)}


def jwt(key: Path | None, *, lasts: float = 600, **claims: Any) -> str:
    """A token that ``key`` signs, or nobody."""
    now = time.time()
    header = {"alg": "none"} if key is None else {"alg": "RS256", "kid": "1", "typ": "JWT"}
    body = {
        "sub": "alice",
        "iat": now,
        "exp": now + lasts,
        "iss": ISSUER,
        "aud": AUDIENCE,
        **claims,
    }
    signed = ".".join(_base64(json.dumps(part).encode()) for part in (header, body))
    if key is None:
        return f"{signed}."
    signature = openssl("dgst", "-sha256", "-sign", str(key), stdin=signed.encode())
    return f"{signed}.{_base64(signature)}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@contextmanager
def token_endpoint(
    authority: CertificateAuthority, make: Callable[[], str]
) -> Iterator[tuple[str, list[str]]]:
    """An OpenID provider; yields its address and the logins of those who asked it."""
    logins: list[str] = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            logins.append(self.headers["Authorization"])
            body = json.dumps({"access_token": make(), "expires_in": 600}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quietly."""

    pair = authority.issue()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"https://localhost:{server.server_port}/token", logins
        finally:
            server.shutdown()
            thread.join()
