"""The options that every client has: where the cluster is, how to reach it, who we are."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypedDict

from kclient.config.option import REQUIRED, Option

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = (
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "GSSAPI",
    "AWS_MSK_IAM",
)
_MINUTE_MS = 60_000


def read_caps(text: str) -> dict[str, int]:
    """Read ``"Fetch:11,Produce:8"``. Raises ValueError for another form."""
    pairs = (item.split(":") for item in text.split(",") if item.strip())
    return {name.strip(): int(version) for name, version in pairs}


def read_pairs(text: str) -> dict[str, str]:
    """Read ``"a=1,b=2"``. Raises ValueError for another form."""
    pairs = (item.partition("=") for item in text.split(",") if item.strip())
    found = {key.strip(): value.strip() for key, _, value in pairs}
    if not all(found) or not all(found.values()):
        raise ValueError(text)
    return found


class ClientKeywords(TypedDict, total=False):
    """Options of all clients, by keyword; times end in ``_ms``, sizes are bytes."""

    client_id: Annotated[str, Option("kclient")]
    client_rack: Annotated[str, Option("")]
    request_timeout_ms: Annotated[int, Option(30_000, at_least=1, kafka=("socket.timeout.ms",))]
    default_api_timeout_ms: Annotated[int, Option(_MINUTE_MS, at_least=1)]
    connections_max_idle_ms: Annotated[int, Option(9 * _MINUTE_MS, at_least=1)]
    socket_connection_setup_timeout_ms: Annotated[int, Option(10_000, at_least=1)]
    reconnect_backoff_ms: Annotated[int, Option(50, at_least=0)]
    reconnect_backoff_max_ms: Annotated[int, Option(1_000, at_least=0)]
    retry_backoff_ms: Annotated[int, Option(100, at_least=0)]
    retry_backoff_max_ms: Annotated[int, Option(1_000, at_least=0)]
    metadata_max_age_ms: Annotated[
        int,
        Option(5 * _MINUTE_MS, at_least=0, kafka=("topic.metadata.refresh.interval.ms",)),
    ]
    metadata_recovery_strategy: Annotated[
        str, Option("rebootstrap", choices=("rebootstrap", "none"))
    ]
    metadata_recovery_rebootstrap_trigger_ms: Annotated[int, Option(5 * _MINUTE_MS, at_least=0)]
    receive_message_max_bytes: Annotated[
        int, Option(512 << 20, at_least=1024, at_most=(1 << 31) - 1)
    ]
    send_buffer_bytes: Annotated[int, Option(-1, at_least=-1, kafka=("send.buffer.bytes",))]
    receive_buffer_bytes: Annotated[int, Option(-1, at_least=-1, kafka=("receive.buffer.bytes",))]
    api_version_caps: Annotated[Mapping[str, int], Option({}, read=read_caps)]
    """The highest version to use of an API, by its name: ``{"Fetch": 11}``."""

    security_protocol: Annotated[str, Option("PLAINTEXT", choices=PROTOCOLS)]
    ssl_context: Annotated[ssl.SSLContext | None, Option(None)]
    ssl_cafile: Annotated[str | None, Option(None, kafka=("ssl.ca.location",))]
    ssl_certfile: Annotated[str | None, Option(None, kafka=("ssl.certificate.location",))]
    ssl_keyfile: Annotated[str | None, Option(None, kafka=("ssl.key.location",))]
    ssl_password: Annotated[str | None, Option(None, secret=True, kafka=("ssl.key.password",))]
    ssl_check_hostname: Annotated[bool, Option(True)]
    ssl_ciphers: Annotated[str | None, Option(None, kafka=("ssl.cipher.suites",))]

    sasl_mechanism: Annotated[
        str | None, Option(None, choices=MECHANISMS, kafka=("sasl.mechanisms",))
    ]
    sasl_plain_username: Annotated[str | None, Option(None, kafka=("sasl.username",))]
    sasl_plain_password: Annotated[str | None, Option(None, secret=True, kafka=("sasl.password",))]
    sasl_scram_token_auth: Annotated[bool, Option(False)]
    """The name and password are the id and HMAC of a delegation token."""
    sasl_oauth_token_provider: Annotated[Callable[[], Any] | None, Option(None)]
    """Returns a token, or a token and when it ends (seconds since the epoch)."""
    sasl_oauthbearer_token_endpoint_url: Annotated[str | None, Option(None)]
    """An https address, asked for tokens by the client credentials grant."""
    sasl_oauthbearer_client_id: Annotated[
        str | None, Option(None, kafka=("sasl.oauthbearer.client.credentials.client.id",))
    ]
    sasl_oauthbearer_client_secret: Annotated[
        str | None,
        Option(None, secret=True, kafka=("sasl.oauthbearer.client.credentials.client.secret",)),
    ]
    sasl_oauthbearer_scope: Annotated[str | None, Option(None)]
    sasl_oauthbearer_header_urlencode: Annotated[bool, Option(False)]
    """Encode the client's id and secret before they are sent: some providers insist (RFC 6749)."""
    sasl_oauthbearer_extensions: Annotated[Mapping[str, str], Option({}, read=read_pairs)]
    sasl_kerberos_service_name: Annotated[str, Option("kafka")]
    sasl_kerberos_principal: Annotated[str | None, Option(None)]
    sasl_kerberos_keytab: Annotated[str | None, Option(None)]
    """A file with the principal's key, in place of a ticket from ``kinit``."""
    sasl_aws_region: Annotated[str | None, Option(None)]
    sasl_aws_access_key_id: Annotated[str | None, Option(None)]
    sasl_aws_secret_access_key: Annotated[str | None, Option(None, secret=True)]
    sasl_aws_session_token: Annotated[str | None, Option(None, secret=True)]
    """The AWS options default to the environment's ``AWS_...`` variables."""
    sasl_aws_credentials_provider: Annotated[Callable[[], Any] | None, Option(None)]
    """Called for each login: returns a key id, its secret, and a session token or None."""


class ClientOptions(ClientKeywords, total=False):
    """Every option of a client, resolved."""

    bootstrap_servers: Annotated[
        str | Sequence[str], Option(REQUIRED, kafka=("metadata.broker.list",))
    ]


class AdminKeywords(ClientKeywords, total=False):
    """Options of ``Admin``, by keyword."""


class AdminOptions(AdminKeywords, ClientOptions, total=False):
    """Every option of ``Admin``, resolved."""
