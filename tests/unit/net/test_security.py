"""What a client's options say about TLS and logins, and what they contradict."""

from __future__ import annotations

import gc
import json
import logging
import pickle
import ssl
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kclient.config import ClientOptions, from_properties, resolve
from kclient.deadline import Deadline
from kclient.errors import AuthenticationError, ConfigError
from kclient.net.security import Security
from kclient.protocol.sasl import Mechanism, OAuthBearer, Plain, Scram
from kclient.testing.certificates import CertificateAuthority, KeyPair

SECRET = "TopSecret-9"
PLAIN = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": SECRET,
}
OAUTH = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
OIDC = {
    **OAUTH,
    "sasl_oauthbearer_token_endpoint_url": "https://issuer.test/token",
    "sasl_oauthbearer_client_id": "me",
    "sasl_oauthbearer_client_secret": SECRET,
}
MSK = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "AWS_MSK_IAM",
    "sasl_aws_access_key_id": "AKID",
    "sasl_aws_secret_access_key": SECRET,
}
BROKER = "b-2.demo.abc.c2.kafka.eu-west-1.amazonaws.com"


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "REGION", "DEFAULT_REGION")
    for name in names:
        monkeypatch.delenv(f"AWS_{name}", raising=False)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def encrypted(authority: CertificateAuthority) -> KeyPair:
    return authority.issue("carol", password=SECRET)


def security(**given: Any) -> Security:
    options = resolve(ClientOptions, {"bootstrap_servers": "a:9092", **given})
    return Security.from_options(options)


def mechanism(host: str = "a", **given: Any) -> Mechanism:
    found = security(**given).mechanism(host)
    assert found is not None
    return found


def first_token(**given: Any) -> bytes:
    return next(mechanism(**given).exchange())


# --- TLS ---


def test_plaintext_is_the_default() -> None:
    found = security()
    assert (found.tls, found.uses_sasl, found.mechanism("a")) == (None, False, None)
    assert repr(found) == "Security(PLAINTEXT)"


def test_tls_checks_everything_by_default() -> None:
    tls = security(security_protocol="SSL").tls
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert tls.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_a_ca_of_ones_own_is_the_only_one(authority: CertificateAuthority) -> None:
    tls = security(security_protocol="SSL", ssl_cafile=str(authority.certificate)).tls
    assert tls is not None
    (trusted,) = tls.get_ca_certs()
    assert trusted["subject"] == ((("commonName", "kclient test CA"),),)


def test_the_name_may_be_left_unchecked_but_the_certificate_is_not() -> None:
    tls = security(security_protocol="SSL", ssl_check_hostname=False).tls
    assert tls is not None
    assert (tls.verify_mode, tls.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_a_users_own_context_is_used_as_it_is() -> None:
    context = ssl.create_default_context()
    assert security(security_protocol="SSL", ssl_context=context).tls is context


def test_ciphers(authority: CertificateAuthority) -> None:
    tls = security(security_protocol="SSL", ssl_ciphers="ECDHE-RSA-AES256-GCM-SHA384").tls
    assert tls is not None
    assert "ECDHE-RSA-AES256-GCM-SHA384" in {cipher["name"] for cipher in tls.get_ciphers()}
    with pytest.raises(ConfigError, match="no cipher of 'NONSENSE'"):
        security(security_protocol="SSL", ssl_ciphers="NONSENSE")


def test_an_encrypted_key_opens_with_its_password(encrypted: KeyPair) -> None:
    files = {"ssl_certfile": str(encrypted.certificate), "ssl_keyfile": str(encrypted.key)}
    security(security_protocol="SSL", ssl_password=SECRET, **files)


@pytest.mark.parametrize(
    ("password", "complaint"),
    [(None, "is encrypted: give ssl_password"), ("WrongSecret", "needs another password")],
)
def test_an_encrypted_key_without_its_password(
    encrypted: KeyPair, password: str | None, complaint: str
) -> None:
    files = {"ssl_certfile": str(encrypted.certificate), "ssl_keyfile": str(encrypted.key)}
    with pytest.raises(ConfigError, match=complaint) as refused:
        security(security_protocol="SSL", ssl_password=password, **files)
    assert "WrongSecret" not in f"{refused.value}{refused.value!r}{vars(refused.value)}"


def test_files_that_cannot_be_used(authority: CertificateAuthority, tmp_path: Path) -> None:
    pair, other = authority.issue("one"), authority.issue("two")
    text = tmp_path / "text"
    text.write_text("not PEM")
    certificate, key = str(pair.certificate), str(pair.key)
    cases: list[tuple[dict[str, str], str]] = [
        ({"ssl_cafile": "/nowhere/ca"}, "ssl_cafile '/nowhere/ca' cannot be read: No such file"),
        ({"ssl_cafile": str(tmp_path)}, "cannot be read: Is a directory"),
        ({"ssl_cafile": str(text)}, "holds no certificate in PEM form"),
        ({"ssl_certfile": "/nowhere/c"}, "ssl_certfile '/nowhere/c' cannot be read"),
        ({"ssl_certfile": certificate, "ssl_keyfile": "/nowhere/k"}, "ssl_keyfile '/nowhere/k'"),
        ({"ssl_certfile": certificate, "ssl_keyfile": str(other.key)}, "is not that of the cert"),
        ({"ssl_certfile": certificate}, "cannot be used"),
        ({"ssl_certfile": str(text), "ssl_keyfile": key}, "cannot be used"),
        ({"ssl_keyfile": key}, "go with ssl_certfile, which is missing"),
        ({"ssl_password": SECRET}, "go with ssl_certfile, which is missing"),
    ]
    for given, complaint in cases:
        with pytest.raises(ConfigError, match=complaint):
            security(security_protocol="SSL", **given)


# --- contradictions ---


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"sasl_mechanism": "PLAIN"}, "sasl_mechanism without a login: .* is PLAINTEXT"),
        ({"sasl_plain_username": "alice"}, "sasl_plain_username without a login"),
        ({"security_protocol": "SSL", "sasl_plain_password": SECRET}, "without a login: .* is SSL"),
        ({"ssl_cafile": "x"}, "ssl_cafile without TLS: security_protocol is PLAINTEXT"),
        ({**PLAIN, "security_protocol": "SASL_PLAINTEXT", "ssl_cafile": "x"}, "without TLS"),
        ({"ssl_context": ssl.create_default_context()}, "ssl_context without TLS"),
        ({"security_protocol": "SASL_SSL"}, "needs a sasl_mechanism: one of PLAIN, SCRAM-SHA-256"),
        ({**PLAIN, "sasl_plain_username": None}, "PLAIN needs sasl_plain_username"),
        ({**PLAIN, "sasl_plain_password": None}, "PLAIN needs sasl_plain_password"),
        ({**PLAIN, "sasl_plain_username": "a\0b"}, "cannot hold a NUL"),
        (
            {**PLAIN, "sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": ""},
            "SCRAM-SHA-256 needs sasl_plain_username",
        ),
        (OAUTH, "needs either sasl_oauth_token_provider or"),
        ({**OIDC, "sasl_oauth_token_provider": str}, "needs either sasl_oauth_token_provider or"),
        ({**OIDC, "sasl_oauthbearer_client_secret": None}, "needs sasl_oauthbearer_client_id and"),
        ({**OIDC, "sasl_oauthbearer_extensions": {"auth": "x"}}, "'auth' cannot be the name"),
        ({**MSK, "security_protocol": "SASL_PLAINTEXT"}, "AWS_MSK_IAM needs .* SASL_SSL"),
        ({**MSK, "sasl_aws_secret_access_key": None}, "AWS_MSK_IAM needs sasl_aws_access_key_id"),
        ({**MSK, "sasl_aws_access_key_id": None}, "AWS_MSK_IAM needs sasl_aws_access_key_id"),
        (
            {
                "security_protocol": "SSL",
                "ssl_context": ssl.create_default_context(),
                "ssl_cafile": "x",
                "ssl_check_hostname": False,
            },
            "ssl_context and ssl_cafile, ssl_check_hostname contradict",
        ),
    ],
)
def test_contradictions(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as refused:
        security(**given)
    assert SECRET not in f"{refused.value}{refused.value!r}{vars(refused.value)}"


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.test/token",
        "file:///etc/passwd",
        "ftp://issuer.test/",
        "issuer.test/token",
        "https://",
        "https:///token",
        "https://issuer.test:port/",
        "https://issuer.test/a b",
        "https://issuer.test/a\r\nX: y",
        f"https://me:{SECRET}@issuer.test/token",
    ],
)
def test_only_https_is_asked_for_tokens(url: str) -> None:
    with pytest.raises(ConfigError, match="sasl_oauthbearer_token_endpoint_url") as refused:
        security(**{**OIDC, "sasl_oauthbearer_token_endpoint_url": url})
    assert SECRET not in str(refused.value)


def test_kerberos_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"pip install 'kclient\[gssapi\]'"):
        security(security_protocol="SASL_SSL", sasl_mechanism="GSSAPI")


# --- logins ---


def test_names_and_passwords() -> None:
    assert isinstance(mechanism(**PLAIN), Plain)
    assert first_token(**PLAIN) == f"\0alice\0{SECRET}".encode()
    scram = mechanism(**{**PLAIN, "sasl_mechanism": "SCRAM-SHA-512"})
    assert isinstance(scram, Scram)
    assert scram.name == "SCRAM-SHA-512"
    token = first_token(
        **{**PLAIN, "sasl_mechanism": "SCRAM-SHA-256", "sasl_scram_token_auth": True}
    )
    assert token.endswith(b",tokenauth=true")


def test_the_jaas_line_of_java() -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    text = f'{module} required username="id" password="{SECRET}" tokenauth=true;'
    given = from_properties(
        ClientOptions,
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": text,
        },
    )
    assert first_token(**given).startswith(b"n,,n=id,r=")
    assert mechanism(**given).identity == "delegation token 'id'"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({**PLAIN, "security_protocol": "SASL_PLAINTEXT"}, "password"),
        (
            {
                **OAUTH,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_oauth_token_provider": lambda: SECRET,
            },
            "token",
        ),
    ],
)
def test_secrets_in_the_open_are_warned_of_once(
    given: dict[str, Any], what: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = security(**given)
    for host in ("a", "b", "a"):
        found.mechanism(host)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"{given['sasl_mechanism']} without TLS sends the {what} readable" in record.getMessage()
    assert SECRET not in caplog.text


def test_no_warning_where_there_is_tls_or_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    security(**PLAIN)
    security(**{**PLAIN, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"})
    assert caplog.records == []


def test_a_token_provider_is_called_for_each_login_unless_it_says_when_a_token_ends() -> None:
    made: list[str] = []

    def provide() -> str:
        made.append(f"token{len(made)}")
        return made[-1]

    found = security(**OAUTH, sasl_oauth_token_provider=provide)
    tokens = [next(found.mechanism("a").exchange()) for _ in range(2)]  # type: ignore[union-attr]
    assert [b"token0" in tokens[0], b"token1" in tokens[1]] == [True, True]
    found = security(**OAUTH, sasl_oauth_token_provider=lambda: (provide(), 1e12))
    assert [found.mechanism("a") is not None for _ in range(3)] == [True] * 3
    assert made == ["token0", "token1", "token2"]


def _raise() -> str:
    raise LookupError("no token today")


@pytest.mark.parametrize(
    ("provide", "complaint"),
    [
        (_raise, "sasl_oauth_token_provider failed with LookupError: no token today"),
        (lambda: None, "returns a string.* not NoneType"),
        (lambda: SECRET.encode(), "returns a string.* not bytes"),
        (lambda: (SECRET, "later"), "returns a string.* not tuple"),
        (lambda: f"{SECRET} {SECRET}", "check what the token provider returns"),
    ],
)
def test_a_token_provider_that_fails(provide: Callable[[], Any], complaint: str) -> None:
    found = security(**OAUTH, sasl_oauth_token_provider=provide)
    with pytest.raises(AuthenticationError, match=complaint) as refused:
        found.mechanism("a")
    assert SECRET not in str(refused.value)


def test_extensions_go_along() -> None:
    given: dict[str, Any] = {**OAUTH, "sasl_oauth_token_provider": lambda: "token"}
    token = first_token(**given, sasl_oauthbearer_extensions={"logicalCluster": "lkc-1"})
    assert token.endswith(b"\x01logicalCluster=lkc-1\x01\x01")
    assert from_properties(ClientOptions, {"sasl.oauthbearer.extensions": "a=1, b=2"}) == {
        "sasl_oauthbearer_extensions": {"a": "1", "b": "2"}
    }
    assert isinstance(mechanism(**given), OAuthBearer)


def test_the_region_of_msk(monkeypatch: pytest.MonkeyPatch) -> None:
    def region(host: str = BROKER, **given: Any) -> str:
        token = json.loads(next(mechanism(host, **MSK, **given).exchange()))
        assert token["host"] == host.rstrip(".")
        return str(token["x-amz-credential"].split("/")[2])

    assert region() == "eu-west-1"
    assert region(f"{BROKER}.") == "eu-west-1"
    assert region("boot-x.c1.kafka-serverless.us-west-2.amazonaws.com") == "us-west-2"
    assert region(sasl_aws_region="us-east-2") == "us-east-2"
    with pytest.raises(AuthenticationError, match="region of 'proxy.test' is unknown"):
        region("proxy.test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "sa-east-1")
    assert region("proxy.test") == "sa-east-1"
    monkeypatch.setenv("AWS_REGION", "ca-central-1")
    assert (region("proxy.test"), region()) == ("ca-central-1", "eu-west-1")


def test_where_the_credentials_of_msk_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(**given: Any) -> str:
        token = json.loads(next(mechanism(BROKER, **given).exchange()))
        shown = token["x-amz-credential"].split("/")[0], token.get("x-amz-security-token")
        return " ".join(filter(None, shown))

    bare = {"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"}
    assert key(**MSK) == "AKID"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    assert key(**bare) == "ENV session"
    assert key(**MSK) == "AKID"  # a session of the environment does not go with another's key
    made = iter([("ONE", SECRET, None), ("TWO", SECRET, "session"), ("only", "two")])
    found = security(**bare, sasl_aws_credentials_provider=lambda: next(made))
    tokens = [next(found.mechanism(BROKER).exchange()) for _ in range(2)]  # type: ignore[union-attr]
    assert [b"ONE/" in tokens[0], b"TWO/" in tokens[1]] == [True, True]
    with pytest.raises(AuthenticationError, match="sasl_aws_credentials_provider returns a tuple"):
        found.mechanism(BROKER)


def test_options_stay_as_they_were_and_pickle() -> None:
    options = resolve(ClientOptions, {"bootstrap_servers": "a:1", **PLAIN})
    before = dict(options)
    found = Security.from_options(options)
    found.mechanism("a", Deadline(1))
    assert dict(options) == before
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize("given", [PLAIN, OIDC, MSK, {**PLAIN, "sasl_mechanism": "SCRAM-SHA-512"}])
def test_no_repr_shows_a_secret(given: dict[str, Any]) -> None:
    options = resolve(ClientOptions, {"bootstrap_servers": "a:1", **given})
    found = Security.from_options(options)
    shown = [repr(found), str(found), repr(options)]
    if given is not OIDC:
        shown.append(repr(found.mechanism("x.kafka.eu-west-1.amazonaws.com")))
    inside = list(_reachable(found))
    assert inside
    assert SECRET not in "".join([*shown, *map(repr, inside)])


def _reachable(start: object) -> Iterator[object]:
    """Whatever of kclient's own a debugger could come across from here."""
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, (type, ModuleType)):
            continue
        seen.add(id(thing))
        if type(thing).__module__.startswith("kclient."):
            yield thing
        # The globals of a function are a dict too: everything would be reachable through them.
        waiting += [each for each in gc.get_referents(thing) if not isinstance(each, dict)]
        waiting += getattr(thing, "__dict__", {}).values()
