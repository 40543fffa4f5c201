"""One broker, and one cluster of three, for all tests of Admin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kclient import Admin, ScramUpsert
from kclient.testing import LocalKafka

Factory = Callable[..., LocalKafka]
LogIn = Callable[..., Admin]

LISTENER = "SASL_PLAINTEXT"
PASSWORDS = {"alice": "alice's secret", "bob": "bob's secret"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="session")
def solo(local_kafka_factory: Factory) -> LocalKafka:
    """One broker with two data folders, where only those without a name may do everything."""
    return local_kafka_factory(
        data_dirs=2,
        properties={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "delegation.token.secret.key": "a key of the tests",
        },
        listeners={
            LISTENER: {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "scram-sha-256.sasl.jaas.config": SCRAM,
            }
        },
    )


@pytest.fixture(scope="session")
def trio(local_kafka_factory: Factory) -> LocalKafka:
    """Three brokers."""
    return local_kafka_factory(brokers=3)


@pytest.fixture
def admin(solo: LocalKafka) -> Iterator[Admin]:
    """An Admin of the one broker, who may do everything."""
    with Admin(solo.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def admin3(trio: LocalKafka) -> Iterator[Admin]:
    """An Admin of the three."""
    with Admin(trio.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="session")
def users(solo: LocalKafka) -> dict[str, str]:
    """The users who can log in, and their passwords."""
    with Admin(solo.bootstrap_servers) as admin:
        admin.alter_scram_credentials(
            ScramUpsert(user, "SCRAM-SHA-256", password) for user, password in PASSWORDS.items()
        )
    return PASSWORDS


def login(user: str, password: str) -> dict[str, Any]:
    """Options to log in with."""
    return {
        "security_protocol": LISTENER,
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


@pytest.fixture
def log_in(solo: LocalKafka, users: dict[str, str]) -> Iterator[LogIn]:
    """Makes Admins of users; other options may be given."""
    admins: list[Admin] = []

    def start(user: str, password: str | None = None, **options: Any) -> Admin:
        given = {**login(user, password or users[user]), **options}
        admins.append(Admin(solo.listener(LISTENER), **given))
        return admins[-1]

    yield start
    for admin in admins:
        admin.close()
