"""Tokens from an OpenID provider by the client credentials grant (RFC 6749, 4.4), over https.

Nothing else is spoken: no other scheme, no redirects, no proxies. The whole answer is read
against one deadline and one size limit before any of it is looked at.
"""

from __future__ import annotations

import base64
import http.client
import io
import json
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from kclient.deadline import Deadline
from kclient.errors import AuthenticationError, ConfigError, KafkaTimeout, TransportError
from kclient.net.tokens import Token

MAX_SECONDS = 10.0
"""How long a provider may take in all."""
MAX_BYTES = 256 * 1024
"""How long its answer may be, headers included."""
_CHUNK = 16 * 1024
_LONGEST_REASON = 300


class ClientCredentials:
    """A client of an OpenID provider. Its repr shows no secret."""

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        *,
        scope: str | None = None,
        urlencode_header: bool = False,
        tls: ssl.SSLContext,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises ConfigError unless ``url`` is an https address without a name or password."""
        self._host, self._port, path = _parsed(url)
        self.url = url
        self._tls = tls
        self._clock = clock
        self._client_id = client_id
        form = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
        pair = (quote_plus(client_id), quote_plus(client_secret))
        login = ":".join(pair if urlencode_header else (client_id, client_secret))
        self._request = _http_request(path, self._where, login, urlencode(form).encode())

    @property
    def _where(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return host if self._port == 443 else f"{host}:{self._port}"

    def fetch(self, deadline: Deadline) -> Token:
        """Ask for a token.

        Raises AuthenticationError if the provider refuses or its answer is no token,
        TransportError if it cannot be reached or is in trouble (5xx), KafkaTimeout.
        """
        now = self._clock()
        status, body = self._ask(deadline.within(MAX_SECONDS))
        if status >= 500 or status == 429:
            raise TransportError(f"{self.url} answered with HTTP {status}", stage="oidc")
        answer = _json(body)
        if status != 200:
            raise AuthenticationError(f"{self.url}: {_reason(status, answer)}", stage="oidc")
        value, lasts = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(value, str) or not value:
            raise AuthenticationError(f"{self.url} answered without an access_token", stage="oidc")
        if isinstance(lasts, bool) or not isinstance(lasts, (int, float)) or lasts <= 0:
            return Token(value)
        return Token(value, now + lasts)

    def _ask(self, deadline: Deadline) -> tuple[int, bytes]:
        try:
            received = self._round_trip(deadline)
            response = http.client.HTTPResponse(_Received(received))  # type: ignore[arg-type]
            response.begin()
            return response.status, response.read()
        except TimeoutError as error:
            text = f"{self.url} did not answer within {deadline.seconds:.1f} s"
            raise KafkaTimeout(text, cause=error, stage="oidc") from error
        except (OSError, http.client.HTTPException) as error:
            raise TransportError(
                f"{self.url}: no token ({type(error).__name__}: {error}); check the address, "
                "the network, and that ssl_cafile holds the provider's CA",
                stage="oidc",
            ) from error

    def _round_trip(self, deadline: Deadline) -> bytes:
        received = bytearray()
        with (
            socket.create_connection((self._host, self._port), deadline.remaining()) as plain,
            self._tls.wrap_socket(plain, server_hostname=self._host) as sock,
        ):
            sock.settimeout(deadline.remaining())
            sock.sendall(self._request)
            while True:
                sock.settimeout(deadline.remaining())
                chunk = sock.recv(_CHUNK)
                if not chunk:
                    return bytes(received)
                received += chunk
                if len(received) > MAX_BYTES:
                    raise AuthenticationError(
                        f"{self.url} answered with more than {MAX_BYTES} bytes", stage="oidc"
                    )

    def __repr__(self) -> str:
        return f"<OIDC client {self._client_id!r} of {self.url}>"


class _Received:
    """An answer that has been read already, where a socket is expected."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _parsed(url: str) -> tuple[str, int, str]:
    try:
        parts = urlsplit(url)
        port = parts.port or 443
    except ValueError as error:
        raise ConfigError(f"sasl_oauthbearer_token_endpoint_url: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigError(
            "sasl_oauthbearer_token_endpoint_url holds a name or password; give them as "
            "sasl_oauthbearer_client_id and sasl_oauthbearer_client_secret"
        )
    if parts.scheme != "https" or not parts.hostname:
        raise ConfigError(
            f"sasl_oauthbearer_token_endpoint_url must begin with https://, not {url!r}: the "
            "client's secret and the token travel there"
        )
    if not url.isascii() or any(character <= " " for character in url):
        raise ConfigError(f"sasl_oauthbearer_token_endpoint_url {url!r} is not encoded")
    return parts.hostname, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _http_request(path: str, where: str, login: str, body: bytes) -> bytes:
    lines = (
        f"POST {path} HTTP/1.1",
        f"Host: {where}",
        f"Authorization: Basic {base64.b64encode(login.encode()).decode()}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        "Accept: application/json",
        "User-Agent: kclient",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + body


def _json(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _reason(status: int, answer: dict[str, Any]) -> str:
    if 300 <= status < 400:
        return f"it redirects (HTTP {status}), which is not followed; give the final address"
    told = (answer.get("error"), answer.get("error_description"))
    reason = ": ".join(text for text in told if isinstance(text, str))[:_LONGEST_REASON]
    return (
        f"the provider refused the client (HTTP {status}{f', {reason!r}' if reason else ''}); "
        "check sasl_oauthbearer_client_id, its secret and sasl_oauthbearer_scope"
    )
