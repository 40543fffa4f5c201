"""How a client's connections are protected and who it logs in as, from its options."""

from __future__ import annotations

import logging
import os
import re
import ssl
from collections.abc import Callable, Mapping
from datetime import datetime, timezone

from kclient.config import ClientOptions
from kclient.config.client import MECHANISMS
from kclient.deadline import Deadline
from kclient.errors import AuthenticationError, ConfigError
from kclient.net.gssapi import Gssapi, load_gssapi
from kclient.net.oidc import MAX_SECONDS, ClientCredentials
from kclient.net.tls import OWN_OPTIONS, client_context, trusting
from kclient.net.tokens import TokenSource, from_provider
from kclient.protocol.sasl import AwsCredentials, Mechanism, MskIam, OAuthBearer, Plain, Scram
from kclient.protocol.sasl.oauthbearer import check_extensions

_log = logging.getLogger(__name__)

_Login = Callable[[str, Deadline], Mechanism]
"""Makes the mechanism of one login to a host."""

_OPEN_SECRETS = ("PLAIN", "OAUTHBEARER")
"""What these send is all that somebody who listens needs."""
_MSK_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")


class Security:
    """What protects connections (``tls``), and what logs in on them.

    Safe to share by threads. Its repr shows no secret.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | None = None,
        login: _Login | None = None,
        *,
        about: str = "PLAINTEXT",
    ) -> None:
        self.tls = tls
        self._login = login
        self._about = about

    @classmethod
    def from_options(cls, options: ClientOptions) -> Security:
        """Check and prepare what resolved options say.

        Raises ConfigError for options that contradict each other or lack one, and for files
        and passwords that do not fit; no message shows a secret.
        """
        protocol, mechanism = options["security_protocol"], options["sasl_mechanism"]
        tls = client_context(options) if protocol.endswith("SSL") else None
        if tls is None:
            _refuse_tls_options(options)
        if not protocol.startswith("SASL_"):
            _refuse_sasl_options(options)
            return cls(tls, about=protocol)
        if mechanism is None:
            raise ConfigError(
                f"security_protocol {protocol} needs a sasl_mechanism: one of "
                f"{', '.join(MECHANISMS)}"
            )
        login = _LOGINS[mechanism](options)
        if tls is None and mechanism in _OPEN_SECRETS:
            _log.warning(
                "%s without TLS sends the %s readable for everybody on the way: use SASL_SSL",
                mechanism,
                "password" if mechanism == "PLAIN" else "token",
            )
        return cls(tls, login, about=f"{protocol} {mechanism}")

    @property
    def uses_sasl(self) -> bool:
        """Whether connections log in."""
        return self._login is not None

    def mechanism(self, host: str, deadline: Deadline | None = None) -> Mechanism | None:
        """What logs in to ``host`` once; None where there is no login.

        It may have to fetch a token first, by ``deadline`` and within 10 seconds. Raises
        AuthenticationError, TransportError or KafkaTimeout if it cannot.
        """
        if self._login is None:
            return None
        return self._login(host.rstrip("."), deadline or Deadline(MAX_SECONDS))

    def __repr__(self) -> str:
        return f"Security({self._about})"


def _plain(options: ClientOptions) -> _Login:
    plain = Plain(*_name_and_password(options, "PLAIN"))
    return lambda _host, _deadline: plain


def _scram(options: ClientOptions) -> _Login:
    name = options["sasl_mechanism"] or ""
    username, password = _name_and_password(options, name)
    scram = Scram(name, username, password, token_auth=options["sasl_scram_token_auth"])
    return lambda _host, _deadline: scram


def _name_and_password(options: ClientOptions, mechanism: str) -> tuple[str, str]:
    username, password = options["sasl_plain_username"], options["sasl_plain_password"]
    if not username or password is None:
        missing = "sasl_plain_password" if username else "sasl_plain_username"
        raise ConfigError(f"sasl_mechanism {mechanism} needs {missing}", option=missing)
    return username, password


def _oauthbearer(options: ClientOptions) -> _Login:
    extensions = options["sasl_oauthbearer_extensions"]
    check_extensions(extensions)
    provider, url = (
        options["sasl_oauth_token_provider"],
        options["sasl_oauthbearer_token_endpoint_url"],
    )
    if (provider is None) == (url is None):
        raise ConfigError(
            "sasl_mechanism OAUTHBEARER needs either sasl_oauth_token_provider or "
            "sasl_oauthbearer_token_endpoint_url"
        )
    fetch = _oidc(options, url).fetch if url is not None else from_provider(provider or str)
    source = TokenSource(fetch)
    return lambda _host, deadline: OAuthBearer(source.token(deadline), extensions)


def _oidc(options: ClientOptions, url: str) -> ClientCredentials:
    client_id = options["sasl_oauthbearer_client_id"]
    client_secret = options["sasl_oauthbearer_client_secret"]
    if not client_id or client_secret is None:
        raise ConfigError(
            "sasl_oauthbearer_token_endpoint_url needs sasl_oauthbearer_client_id and "
            "sasl_oauthbearer_client_secret"
        )
    return ClientCredentials(
        url,
        client_id,
        client_secret,
        scope=options["sasl_oauthbearer_scope"],
        urlencode_header=options["sasl_oauthbearer_header_urlencode"],
        # Brokers may have a CA of their own while the provider has one that all trust.
        tls=trusting(options["ssl_cafile"], system=True),
    )


def _gssapi(options: ClientOptions) -> _Login:
    load_gssapi()  # so that its absence is told here, not at the first connection
    service, principal = options["sasl_kerberos_service_name"], options["sasl_kerberos_principal"]
    keytab = options["sasl_kerberos_keytab"]
    return lambda host, _deadline: Gssapi(host, service, principal, keytab)


def _msk_iam(options: ClientOptions) -> _Login:
    if options["security_protocol"] != "SASL_SSL":
        raise ConfigError("sasl_mechanism AWS_MSK_IAM needs security_protocol SASL_SSL")
    credentials = _aws_credentials(options)
    given = options["sasl_aws_region"]

    def login(host: str, _deadline: Deadline) -> Mechanism:
        region = given or _region_of(host)
        return MskIam(host, region, credentials(), datetime.now(timezone.utc))

    return login


def _aws_credentials(options: ClientOptions) -> Callable[[], AwsCredentials]:
    provider = options["sasl_aws_credentials_provider"]
    if provider is not None:
        return lambda: _checked(provider())
    key, secret = options["sasl_aws_access_key_id"], options["sasl_aws_secret_access_key"]
    token = options["sasl_aws_session_token"]
    if key is None and secret is None:
        key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
        token = token or os.environ.get("AWS_SESSION_TOKEN")
    if not key or not secret:
        raise ConfigError(
            "sasl_mechanism AWS_MSK_IAM needs sasl_aws_access_key_id and "
            "sasl_aws_secret_access_key, the variables AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or sasl_aws_credentials_provider"
        )
    found = AwsCredentials(key, secret, token)
    return lambda: found


def _checked(made: object) -> AwsCredentials:
    if isinstance(made, tuple) and len(made) == 3:
        key, secret, token = made
        if isinstance(key, str) and isinstance(secret, str) and isinstance(token, str | None):
            return AwsCredentials(key, secret, token)
    raise AuthenticationError(
        "sasl_aws_credentials_provider returns a tuple of a key id, its secret, and a session "
        f"token or None, not {type(made).__name__}"
    )


def _region_of(host: str) -> str:
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    found = _MSK_HOST.search(host)
    region = found[1] if found else named
    if not region:
        raise AuthenticationError(
            f"the AWS region of {host!r} is unknown; set sasl_aws_region or AWS_REGION"
        )
    return region


_LOGINS: Mapping[str, Callable[[ClientOptions], _Login]] = {
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
    "SCRAM-SHA-512": _scram,
    "OAUTHBEARER": _oauthbearer,
    "GSSAPI": _gssapi,
    "AWS_MSK_IAM": _msk_iam,
}


def _refuse_tls_options(options: ClientOptions) -> None:
    values: dict[str, object] = {**options}
    given = [name for name in ("ssl_context", *OWN_OPTIONS) if values[name] is not None]
    if options["sasl_oauthbearer_token_endpoint_url"] and "ssl_cafile" in given:
        given.remove("ssl_cafile")  # it is for the token endpoint
    if given:
        raise ConfigError(
            f"{', '.join(given)} without TLS: security_protocol is "
            f"{options['security_protocol']}; set it to SSL or SASL_SSL"
        )


def _refuse_sasl_options(options: ClientOptions) -> None:
    values: dict[str, object] = {**options}
    names = (
        "sasl_mechanism",
        "sasl_plain_username",
        "sasl_plain_password",
        "sasl_oauth_token_provider",
        "sasl_oauthbearer_token_endpoint_url",
    )
    given = [name for name in names if values[name] is not None]
    if given:
        raise ConfigError(
            f"{', '.join(given)} without a login: security_protocol is "
            f"{options['security_protocol']}; set it to SASL_SSL or SASL_PLAINTEXT"
        )
