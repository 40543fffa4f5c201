"""Every API that the fake offers, in every version that it says it speaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kclient.protocol import APIS, REQUESTS, RESPONSES, Message, Struct
from kclient.testing import FakeCluster
from kclient.testing.fake import error_code
from kclient.testing.fake.codes import Code
from kclient.testing.fake.handlers import HANDLERS

from .raw import RawClient

EVERY = [
    (key, version)
    for key in sorted(HANDLERS)
    for version in range(APIS[key].versions[0], APIS[key].stable + 1)
]
_NAMES = {"name", "topic", "group_id", "transactional_id", "key", "resource_name"}


def filled(struct: type[Struct], version: int) -> Any:
    """A request with one item in each list, about the topic and group ``orders``."""
    values: dict[str, Any] = {}
    for name, field in struct.FIELDS.items():
        if not field.exists_in(version):
            continue
        if field.kind == "array" and field.struct is not None:
            values[name] = [filled(field.struct, version)]
        elif field.kind == "array" and field.element is not None:
            values[name] = ["orders"] if field.element.kind == "string" else [0]
        elif field.kind == "string" and name in _NAMES:
            values[name] = "orders"
        elif name == "acks":
            values[name] = -1  # without acks there is no answer
    return struct(**values)


def codes_in(value: object) -> set[int]:
    """All error codes of an answer."""
    if isinstance(value, list):
        return {code for item in value for code in codes_in(item)}
    if not isinstance(value, Struct):
        return set()
    found: set[int] = set()
    for name in value.FIELDS:
        inner = getattr(value, name)
        found |= {inner} if name.endswith("error_code") else codes_in(inner)
    return found


def ask(cluster: FakeCluster, key: int, version: int) -> Message:
    with RawClient(cluster.address(1)) as client:
        return client.ask(filled(REQUESTS[key], version), version, RESPONSES[key])


@pytest.mark.parametrize(
    ("key", "version"), EVERY, ids=[f"{APIS[key].name} v{version}" for key, version in EVERY]
)
def test_it_is_answered_and_takes_a_scripted_error(
    key: int, version: int, fake_cluster: Callable[..., FakeCluster]
) -> None:
    cluster = fake_cluster(topics={"orders": 1})
    ask(cluster, key, version)
    cluster.on(APIS[key].name, error_code(77))
    assert 77 in codes_in(ask(cluster, key, version))
    cluster.on(APIS[key].name, error_code(78, processed=True))
    assert 78 in codes_in(ask(cluster, key, version))
    assert cluster.malformed == []


def test_the_codes_have_the_names_that_kafka_gives_them() -> None:
    from kclient._generated_codes import ERROR_CODES

    assert {code.name: int(code) for code in Code} == {
        ERROR_CODES[code][0]: int(code) for code in Code
    }
