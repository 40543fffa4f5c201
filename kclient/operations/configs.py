"""Configs of topics, brokers, groups and client metrics: described and altered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from kclient.cluster.call import Call
from kclient.cluster.target import ANY, Node, Target
from kclient.errors import InvalidRequest, UnsupportedVersion
from kclient.operations.given import check_topic, code_of, name_of, need, several, text_of
from kclient.operations.many import (
    CONTROLLER_CODES,
    CallFor,
    Many,
    Results,
    failed,
    outcome,
    reading,
)
from kclient.protocol.messages import alter_configs as old
from kclient.protocol.messages import incremental_alter_configs as new
from kclient.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)

ConfigResourceType = Literal["topic", "broker", "broker_logger", "client_metrics", "group"]
ConfigOperation = Literal["set", "delete", "append", "subtract"]

RESOURCES = {"topic": 2, "broker": 4, "broker_logger": 8, "client_metrics": 16, "group": 32}
OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}
SOURCES = {
    "unknown": 0,
    "dynamic_topic": 1,
    "dynamic_broker": 2,
    "dynamic_default_broker": 3,
    "static_broker": 4,
    "default": 5,
    "dynamic_broker_logger": 6,
    "client_metrics": 7,
    "group": 8,
}
TYPES = {
    "unknown": 0,
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
_OWN_SOURCES = {
    "topic": "dynamic_topic",
    "broker": "dynamic_broker",
    "broker_logger": "dynamic_broker_logger",
}


@dataclass(frozen=True)
class ConfigResource:
    """What has configs: a topic by name, a broker by id, ``""`` for the default of brokers.

    Raises InvalidRequest for a type that does not exist and a name that cannot be.
    """

    type: ConfigResourceType
    name: str = ""

    def __post_init__(self) -> None:
        code_of(RESOURCES, self.type, "type of config resource")
        if self.type == "topic":
            check_topic(self.name)
        is_node = self.type == "broker_logger" or (self.type == "broker" and self.name != "")
        if is_node and not self.name.isdigit():
            raise InvalidRequest(f"a {self.type} is named by its node id, not {self.name!r}")

    def __str__(self) -> str:
        return f"{self.type} {self.name!r}" if self.name else f"all {self.type}s"

    @property
    def target(self) -> Target:
        """Who answers: a broker for itself, anyone for the rest."""
        return Node(int(self.name)) if self.type.startswith("broker") and self.name else ANY


@dataclass(frozen=True)
class ConfigSynonym:
    """A place where the value could come from, and what it would be."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True)
class ConfigEntry:
    """A config and its value, None for one that is sensitive.

    ``source`` says where the value is from: ``dynamic_topic``, ``static_broker``,
    ``default``, ... ``type`` is that of the value; brokers tell it since 2.6.
    """

    name: str
    value: str | None
    source: str
    is_read_only: bool = False
    is_sensitive: bool = False
    type: str = "unknown"
    synonyms: tuple[ConfigSynonym, ...] = ()
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source == "default"


@dataclass(frozen=True)
class ConfigChange:
    """What to do to a config: ``append`` and ``subtract`` are for lists (since Kafka 2.3)."""

    operation: ConfigOperation
    value: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        code_of(OPERATIONS, self.operation, "operation on a config")
        if (self.value is None) != (self.operation == "delete"):
            raise InvalidRequest(f"to {self.operation} a config takes a value, to delete it none")


ConfigValue = str | int | float | bool | Sequence[str] | None
"""What a config may be set to; None takes the setting away."""
Changes = Mapping[ConfigResource, Mapping[str, ConfigChange]]
Entries = dict[str, ConfigEntry]


def read_changes(
    given: Mapping[ConfigResource, Mapping[str, ConfigValue | ConfigChange]],
) -> Changes:
    """The changes; a plain value sets, None deletes. Raises InvalidRequest."""
    for resource in given:
        if not isinstance(resource, ConfigResource):
            raise InvalidRequest(f"give ConfigResource(type, name), not {resource!r}")
    return {
        resource: {name: _change(value) for name, value in changes.items()}
        for resource, changes in given.items()
    }


def _change(value: ConfigValue | ConfigChange) -> ConfigChange:
    if isinstance(value, ConfigChange):
        return value
    return ConfigChange("delete") if value is None else ConfigChange("set", text_of(value))


# --- describe ---


def describe(
    resources: Iterable[ConfigResource],
    *,
    synonyms: bool = False,
    documentation: bool = False,
) -> Many[ConfigResource, Entries]:
    """Every config of each resource."""

    def call(items: Sequence[ConfigResource], timeout_ms: int) -> CallFor[ConfigResource, Entries]:
        def build(version: int) -> DescribeConfigsRequest:
            if synonyms:
                need(version, 1, "tell the synonyms of configs", "1.1")
            if documentation:
                need(version, 3, "tell the documentation of configs", "2.6")
            return DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=RESOURCES[item.type],
                        resource_name=item.name,
                        configuration_keys=None,
                    )
                    for item in items
                ],
                include_synonyms=synonyms,
                include_documentation=documentation,
            )

        return Call(DescribeConfigsRequest, build, reading(DescribeConfigsResponse, _described))

    found = several(resources, "ConfigResource")
    return Many("describing configs", found, call, lambda resource: resource.target)


def _described(answer: DescribeConfigsResponse) -> Results[ConfigResource, Entries]:
    results: Results[ConfigResource, Entries] = {}
    for row in answer.results:
        resource = _resource(row.resource_type, row.resource_name)
        if row.error_code:
            what = f"the configs of {resource} were not told"
            results[resource] = failed(row.error_code, what, row.error_message)
        else:
            results[resource] = {each.name: _entry(resource, each) for each in row.configs}
    return results


def _resource(code: int, name: str) -> ConfigResource:
    return ConfigResource(cast(ConfigResourceType, name_of(RESOURCES, code)), name)


def _entry(resource: ConfigResource, row: DescribeConfigsResourceResult) -> ConfigEntry:
    source = name_of(SOURCES, row.config_source)
    if row.config_source < 0:  # v0 of the API only says whether it is the default
        source = "default" if row.is_default else _OWN_SOURCES.get(resource.type, "unknown")
        if row.read_only and not row.is_default:
            source = "static_broker"
    return ConfigEntry(
        name=row.name,
        value=row.value,
        source=source,
        is_read_only=row.read_only,
        is_sensitive=row.is_sensitive,
        type=name_of(TYPES, row.config_type),
        synonyms=tuple(
            ConfigSynonym(each.name, each.value, name_of(SOURCES, each.source))
            for each in row.synonyms
        ),
        documentation=row.documentation,
    )


# --- alter ---


def alter(changes: Changes, *, validate_only: bool = False) -> Many[ConfigResource, None]:
    """Change some configs and leave the rest (KIP-339, since Kafka 2.3)."""

    def call(items: Sequence[ConfigResource], timeout_ms: int) -> CallFor[ConfigResource, None]:
        def build(version: int) -> new.IncrementalAlterConfigsRequest:
            return new.IncrementalAlterConfigsRequest(
                resources=[_incremental(item, changes[item]) for item in items],
                validate_only=validate_only,
            )

        read = reading(new.IncrementalAlterConfigsResponse, _altered)
        return Call(new.IncrementalAlterConfigsRequest, build, read)

    return Many("altering configs", list(changes), call, lambda resource: resource.target)


def _incremental(
    resource: ConfigResource, changes: Mapping[str, ConfigChange]
) -> new.AlterConfigsResource:
    return new.AlterConfigsResource(
        resource_type=RESOURCES[resource.type],
        resource_name=resource.name,
        configs=[
            new.AlterableConfig(
                name=name,
                config_operation=OPERATIONS[change.operation],
                value=None if change.value is None else text_of(change.value),
            )
            for name, change in changes.items()
        ],
    )


def replace(
    settings: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
) -> Many[ConfigResource, None]:
    """Make these the only settings of each resource: the old way, before Kafka 2.3."""

    def call(items: Sequence[ConfigResource], timeout_ms: int) -> CallFor[ConfigResource, None]:
        def build(version: int) -> old.AlterConfigsRequest:
            resources = [
                old.AlterConfigsResource(
                    resource_type=RESOURCES[item.type],
                    resource_name=item.name,
                    configs=[
                        old.AlterableConfig(name=name, value=value)
                        for name, value in settings[item].items()
                    ],
                )
                for item in items
            ]
            return old.AlterConfigsRequest(resources=resources, validate_only=validate_only)

        return Call(old.AlterConfigsRequest, build, reading(old.AlterConfigsResponse, _altered))

    return Many("altering configs", list(settings), call, lambda resource: resource.target)


def _altered(
    answer: new.IncrementalAlterConfigsResponse | old.AlterConfigsResponse,
) -> Results[ConfigResource, None]:
    results: Results[ConfigResource, None] = {}
    for row in answer.responses:
        resource = _resource(row.resource_type, row.resource_name)
        what = f"the configs of {resource} were not altered"
        results[resource] = outcome(row.error_code, what, row.error_message, again=CONTROLLER_CODES)
    return results


def with_changes(
    resource: ConfigResource, present: Entries, changes: Mapping[str, ConfigChange]
) -> dict[str, str]:
    """All settings of a resource after some changes, for a broker that can only replace them.

    Raises UnsupportedVersion where that would lose a setting, or change a list.
    """
    own = _OWN_SOURCES.get(resource.type)
    if resource.type == "broker" and not resource.name:
        own = "dynamic_default_broker"
    settings: dict[str, str] = {}
    for name, entry in present.items():
        if entry.source != own or name in changes:
            continue
        if entry.value is None:
            raise UnsupportedVersion(
                f"{resource} has the sensitive setting {name!r}, which the broker does not show "
                "and would lose: give it too, or alter configs with Kafka 2.3 or later"
            )
        settings[name] = entry.value
    for name, change in changes.items():
        if change.operation in ("append", "subtract"):
            raise UnsupportedVersion(
                f"the broker cannot {change.operation} to the list {name!r}: Kafka can since 2.3; "
                "set the whole list"
            )
        if change.value is not None:
            settings[name] = text_of(change.value)
    return settings
