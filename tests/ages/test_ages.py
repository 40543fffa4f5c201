"""Every Kafka there ever was: what it can do works, and what it cannot is told. No settings."""

from __future__ import annotations

from kclient.errors import DeliveryError, KafkaError, PartialFailure, UnsupportedVersion

from .abilities import ABILITIES, Ability
from .age import Age


def test_all_that_this_kafka_can_do(age: Age, row: dict[str, bool]) -> None:
    for ability in ABILITIES:
        row[ability.title] = can(age, ability)
    due = {ability.title: age.number >= ability.since for ability in ABILITIES}
    assert row == due


def can(age: Age, ability: Ability) -> bool:
    """Try it; only an error that says so means that the broker is too old."""
    try:
        ability.show(age)
    except KafkaError as error:
        if not all(isinstance(each, UnsupportedVersion) for each in causes(error)):
            raise
        return False
    return True


def causes(error: KafkaError) -> list[KafkaError]:
    """The errors of each item, or the one error of all."""
    if isinstance(error, PartialFailure):
        return list(error.failures.values())
    if isinstance(error, DeliveryError):
        return [each.error for each in error.failures]
    return [error]
