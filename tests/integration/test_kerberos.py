"""GSSAPI with a real key server and a real broker."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient.errors import AuthenticationError
from kclient.testing import LocalKafka, MissingTool
from kclient.testing.kdc import REALM, Kdc

from .logins import login_name

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gssapi") is None,
    reason="the gssapi package is not installed: tools/install_krb5.sh, then make test",
)
MODULE = "com.sun.security.auth.module.Krb5LoginModule"


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    try:
        realm = Kdc()
    except MissingTool as error:
        pytest.skip(str(error))
    with realm:
        realm.keytab("alice")
        yield realm


@pytest.fixture(scope="module")
def address(kdc: Kdc, local_kafka_factory: Callable[..., LocalKafka]) -> Iterator[str]:
    keytab = kdc.keytab("kafka/localhost")
    jaas = f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
    kafka = local_kafka_factory(
        listeners={
            "SASL_PLAINTEXT": {
                "sasl.enabled.mechanisms": "GSSAPI",
                "gssapi.sasl.jaas.config": f'{jaas} principal="kafka/localhost@{REALM}";',
                "sasl.kerberos.service.name": "kafka",
            }
        },
        properties={"delegation.token.secret.key": "for who_am_i"},
        jvm_flags=[f"-Djava.security.krb5.conf={kdc.krb5_conf}"],
    )
    yield kafka.listener("SASL_PLAINTEXT")
    kafka.close()


@pytest.fixture(autouse=True)
def realm(kdc: Kdc, monkeypatch: pytest.MonkeyPatch) -> None:
    """The realm is this process's; it has no ticket."""
    for name, value in kdc.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.folder}/nobody.ccache")
    for name in ("KRB5_KTNAME", "KRB5_CLIENT_KTNAME"):
        monkeypatch.setenv(name, f"FILE:{kdc.folder}/nobody.keytab")


GSSAPI: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}


def test_a_ticket_of_the_cache(kdc: Kdc, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket('alice')}")
    assert login_name(address, **GSSAPI) == "alice"
    assert login_name(address, sasl_kerberos_principal=f"alice@{REALM}", **GSSAPI) == "alice"


def test_a_keytab(kdc: Kdc, address: str) -> None:
    keytab = str(kdc.keytab("bob"))
    chosen = {"sasl_kerberos_keytab": keytab, "sasl_kerberos_principal": f"bob@{REALM}"}
    assert login_name(address, **chosen, **GSSAPI) == "bob"
    assert login_name(address, sasl_kerberos_keytab=keytab, **GSSAPI) == "bob"


def test_two_principals_in_one_process(kdc: Kdc, address: str) -> None:
    names = ("carol", "dora", "carol")
    keytabs = {name: str(kdc.keytab(name)) for name in ("carol", "dora")}
    for name in names:
        chosen = {
            "sasl_kerberos_keytab": keytabs[name],
            "sasl_kerberos_principal": f"{name}@{REALM}",
        }
        assert login_name(address, **chosen, **GSSAPI) == name


def test_no_ticket(address: str) -> None:
    with pytest.raises(AuthenticationError, match="by GSSAPI: Kerberos: ") as refused:
        login_name(address, **GSSAPI)
    assert "our Kerberos ticket" in str(refused.value)


def test_a_ticket_of_somebody_else(kdc: Kdc, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket('alice')}")
    with pytest.raises(AuthenticationError, match="Kerberos principal 'mallory@KCLIENT.TEST'"):
        login_name(address, sasl_kerberos_principal=f"mallory@{REALM}", **GSSAPI)


def test_a_service_that_the_realm_does_not_know(
    kdc: Kdc, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket('alice')}")
    with pytest.raises(AuthenticationError, match="not found in Kerberos database"):
        login_name(address, sasl_kerberos_service_name="queue", **GSSAPI)


def test_a_broker_whose_key_has_changed(
    kdc: Kdc, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service the realm knows and the broker does not: the broker refuses."""
    kdc.keytab("other/localhost")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{kdc.ticket('alice')}")
    with pytest.raises(AuthenticationError, match="the broker refused.*check the ticket"):
        login_name(address, sasl_kerberos_service_name="other", **GSSAPI)
