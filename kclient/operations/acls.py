"""Access control: who may do what, listed, granted and taken away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kclient.cluster.call import Call
from kclient.errors import InvalidRequest, KafkaError
from kclient.operations.given import OPERATIONS, code_of, name_of, need, several
from kclient.operations.many import (
    CONTROLLER_CODES,
    CallFor,
    Many,
    Results,
    check,
    failed,
    outcome,
    reading,
)
from kclient.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from kclient.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kclient.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

AclResourceType = Literal[
    "any", "topic", "group", "cluster", "transactional_id", "delegation_token", "user"
]
AclPatternType = Literal["any", "match", "literal", "prefixed"]
AclOperation = Literal[
    "any",
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
    "create_tokens",
    "describe_tokens",
    "two_phase_commit",
]
AclPermission = Literal["any", "deny", "allow"]

_RESOURCES = {
    "any": 1,
    "topic": 2,
    "group": 3,
    "cluster": 4,
    "transactional_id": 5,
    "delegation_token": 6,
    "user": 7,
}
_PATTERNS = {"any": 1, "match": 2, "literal": 3, "prefixed": 4}
_PERMISSIONS = {"any": 1, "deny": 2, "allow": 3}
CLUSTER = "kafka-cluster"
"""The name of the one resource of type ``cluster``."""


class _Codes(NamedTuple):
    """An ACL or filter as numbers."""

    resource: int
    pattern: int
    operation: int
    permission: int


@dataclass(frozen=True)
class AclBinding:
    """Somebody may, or may not, do something with a resource.

    ``principal`` is ``User:alice``, or ``User:*`` for all; ``host`` an address or ``*``. A
    ``prefixed`` name stands for all names that begin so (since Kafka 2.0). The one resource
    of type ``cluster`` is called ``kafka-cluster``. Raises InvalidRequest.
    """

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = "allow"
    host: str = "*"
    pattern_type: AclPatternType = "literal"

    def __post_init__(self) -> None:
        codes = _codes(self)
        if 1 in codes or self.pattern_type == "match":
            raise InvalidRequest(f"{self}: 'any' and 'match' are for filters, not for ACLs")
        if ":" not in self.principal:
            raise InvalidRequest(f"a principal is 'User:name', not {self.principal!r}")
        if self.resource_type == "cluster" and self.resource_name != CLUSTER:
            raise InvalidRequest(f"the cluster is called {CLUSTER!r}, not {self.resource_name!r}")

    def __str__(self) -> str:
        return (
            f"{self.permission} {self.principal} from {self.host} to {self.operation} "
            f"{self.pattern_type} {self.resource_type} {self.resource_name!r}"
        )


@dataclass(frozen=True)
class AclFilter:
    """Which ACLs are meant: None and ``any`` fit all.

    The pattern type ``match`` means every ACL that applies to the resource, be it literal,
    prefixed or for all.
    """

    resource_type: AclResourceType = "any"
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = "any"
    permission: AclPermission = "any"
    host: str | None = None
    pattern_type: AclPatternType = "any"

    def __post_init__(self) -> None:
        _codes(self)


def _codes(acl: AclBinding | AclFilter) -> _Codes:
    return _Codes(
        code_of(_RESOURCES, acl.resource_type, "type of resource"),
        code_of(_PATTERNS, acl.pattern_type, "type of pattern"),
        code_of(OPERATIONS, acl.operation, "operation"),
        code_of(_PERMISSIONS, acl.permission, "permission"),
    )


def _pattern(acl: AclBinding | AclFilter, version: int) -> int:
    """The pattern type, where the version has one; before, all names were literal."""
    code = _codes(acl).pattern
    if version == 0:
        if acl.pattern_type not in ("literal", "any"):
            need(version, 1, f"have {acl.pattern_type} patterns in ACLs", "2.0")
        return _PATTERNS["literal"]
    return code


def _binding(
    resource: tuple[int, str, int], principal: str, host: str, operation: int, permission: int
) -> AclBinding:
    """An ACL that a broker told of, without our checks: it may know more than we do."""
    binding = object.__new__(AclBinding)
    kind, name, pattern = resource
    values = {
        "resource_type": name_of(_RESOURCES, kind),
        "resource_name": name,
        "principal": principal,
        "operation": name_of(OPERATIONS, operation),
        "permission": name_of(_PERMISSIONS, permission),
        "host": host,
        "pattern_type": name_of(_PATTERNS, pattern),
    }
    binding.__dict__.update(values)
    return binding


# --- describe ---


def describe(wanted: AclFilter | AclBinding) -> Call[list[AclBinding]]:
    """The ACLs that fit."""

    def build(version: int) -> DescribeAclsRequest:
        codes = _codes(wanted)
        return DescribeAclsRequest(
            resource_type_filter=codes.resource,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=_pattern(wanted, version),
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=codes.operation,
            permission_type=codes.permission,
        )

    def read(answer: DescribeAclsResponse) -> list[AclBinding]:
        check(answer.error_code, "ACLs were not told", answer.error_message)
        return [
            _binding(
                (resource.resource_type, resource.resource_name, resource.pattern_type),
                row.principal,
                row.host,
                row.operation,
                row.permission_type,
            )
            for resource in answer.resources
            for row in resource.acls
        ]

    return Call(DescribeAclsRequest, build, reading(DescribeAclsResponse, read))


# --- create ---


def create(given: Iterable[AclBinding]) -> Many[AclBinding, None]:
    """Add ACLs; one that exists already is no error."""

    def call(items: Sequence[AclBinding], timeout_ms: int) -> CallFor[AclBinding, None]:
        def build(version: int) -> CreateAclsRequest:
            return CreateAclsRequest(creations=[_creation(item, version) for item in items])

        def read(answer: CreateAclsResponse) -> Results[AclBinding, None]:
            # The answer has no names: its rows come in the order of the request.
            return {
                item: outcome(
                    row.error_code,
                    f"not added: {item}",
                    row.error_message,
                    again=CONTROLLER_CODES,
                )
                for item, row in zip(items, answer.results, strict=True)
            }

        return Call(CreateAclsRequest, build, reading(CreateAclsResponse, read))

    return Many("creating ACLs", several(given, "AclBinding"), call)


def _creation(acl: AclBinding, version: int) -> AclCreation:
    codes = _codes(acl)
    return AclCreation(
        resource_type=codes.resource,
        resource_name=acl.resource_name,
        resource_pattern_type=_pattern(acl, version),
        principal=acl.principal,
        host=acl.host,
        operation=codes.operation,
        permission_type=codes.permission,
    )


# --- delete ---

Filter = AclFilter | AclBinding


def delete(given: Iterable[Filter]) -> Many[Filter, list[AclBinding]]:
    """Take ACLs away; the result of a filter is what it took."""

    def call(items: Sequence[Filter], timeout_ms: int) -> CallFor[Filter, list[AclBinding]]:
        def build(version: int) -> DeleteAclsRequest:
            return DeleteAclsRequest(filters=[_filter(item, version) for item in items])

        def read(answer: DeleteAclsResponse) -> Results[Filter, list[AclBinding]]:
            rows = zip(items, answer.filter_results, strict=True)
            return {item: _deleted(item, row) for item, row in rows}

        return Call(DeleteAclsRequest, build, reading(DeleteAclsResponse, read))

    return Many("deleting ACLs", several(given, "AclFilter"), call)


def _filter(wanted: Filter, version: int) -> DeleteAclsFilter:
    codes = _codes(wanted)
    return DeleteAclsFilter(
        resource_type_filter=codes.resource,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=_pattern(wanted, version),
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=codes.operation,
        permission_type=codes.permission,
    )


def _deleted(wanted: Filter, row: DeleteAclsFilterResult) -> list[AclBinding] | KafkaError:
    rows: list[DeleteAclsFilterResult | DeleteAclsMatchingAcl] = [row, *row.matching_acls]
    for each in rows:
        if each.error_code:
            what = f"not all ACLs of {wanted} were deleted"
            return failed(each.error_code, what, each.error_message, again=CONTROLLER_CODES)
    return [
        _binding(
            (each.resource_type, each.resource_name, each.pattern_type),
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in row.matching_acls
    ]
