"""Quotas of clients, by user, client id and address (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kclient.cluster.call import Call
from kclient.errors import InvalidRequest
from kclient.operations.many import (
    CONTROLLER_CODES,
    CallFor,
    Many,
    Results,
    check,
    outcome,
    reading,
)
from kclient.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    RequestEntityData,
    RequestEntryData,
    ResponseEntityData,
)
from kclient.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
)

QUOTA_DEFAULT = "<default>"
"""In place of a name: the quota of those who have none of their own."""
QUOTA_ANY = "<any>"
"""In place of a name, in a filter only: everybody who has one."""
_EXACT, _DEFAULT, _ANY = 0, 1, 2


@dataclass(frozen=True)
class QuotaEntity:
    """Whom a quota is for: a user, a client id, both together, or an address.

    What is None does not count. Raises InvalidRequest for nobody, and for an address
    together with others.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __post_init__(self) -> None:
        parts = self.parts
        if not parts or ("ip" in parts and len(parts) > 1):
            raise InvalidRequest(
                "a quota is for a user, a client_id, both together, or an ip alone, "
                f"not for {parts or 'nobody'}"
            )

    @property
    def parts(self) -> dict[str, str]:
        """What counts, by Kafka's names."""
        named = {"user": self.user, "client-id": self.client_id, "ip": self.ip}
        return {kind: name for kind, name in named.items() if name is not None}


Quotas = dict[str, float]
"""Values by their names: ``producer_byte_rate``, ``consumer_byte_rate`` (bytes a second for each
broker), ``request_percentage``, ``controller_mutation_rate``, ``connection_creation_rate``."""


def describe(wanted: Mapping[str, str | None], strict: bool) -> Call[dict[QuotaEntity, Quotas]]:
    """Quotas of those that fit; ``strict`` leaves out those that have more parts."""

    def build(version: int) -> DescribeClientQuotasRequest:
        components = [_component(kind, name) for kind, name in wanted.items() if name is not None]
        return DescribeClientQuotasRequest(components=components, strict=strict)

    def read(answer: DescribeClientQuotasResponse) -> dict[QuotaEntity, Quotas]:
        check(answer.error_code, "quotas were not told", answer.error_message)
        return {
            _entity(entry.entity): {each.key: each.value for each in entry.values}
            for entry in answer.entries or ()
        }

    return Call(DescribeClientQuotasRequest, build, reading(DescribeClientQuotasResponse, read))


def _component(kind: str, name: str) -> ComponentData:
    match_type = {QUOTA_DEFAULT: _DEFAULT, QUOTA_ANY: _ANY}.get(name, _EXACT)
    match = name if match_type == _EXACT else None
    return ComponentData(entity_type=kind, match_type=match_type, match=match)


def _entity(rows: Sequence[EntityData | ResponseEntityData]) -> QuotaEntity:
    parts = {
        row.entity_type: QUOTA_DEFAULT if row.entity_name is None else row.entity_name
        for row in rows
    }
    return QuotaEntity(parts.get("user"), parts.get("client-id"), parts.get("ip"))


def alter(
    given: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool
) -> Many[QuotaEntity, None]:
    """Set quotas; None takes one away."""
    for entity in given:
        if not isinstance(entity, QuotaEntity) or QUOTA_ANY in entity.parts.values():
            raise InvalidRequest(f"give a QuotaEntity of one, or {QUOTA_DEFAULT!r}: not {entity!r}")

    def call(items: Sequence[QuotaEntity], timeout_ms: int) -> CallFor[QuotaEntity, None]:
        def build(version: int) -> AlterClientQuotasRequest:
            return AlterClientQuotasRequest(
                entries=[_entry(item, given[item]) for item in items], validate_only=validate_only
            )

        return Call(AlterClientQuotasRequest, build, reading(AlterClientQuotasResponse, _altered))

    return Many("altering quotas", list(given), call)


def _entry(entity: QuotaEntity, values: Mapping[str, float | None]) -> RequestEntryData:
    return RequestEntryData(
        entity=[
            RequestEntityData(entity_type=kind, entity_name=None if name == QUOTA_DEFAULT else name)
            for kind, name in entity.parts.items()
        ],
        ops=[
            OpData(key=key, value=0.0 if value is None else value, remove=value is None)
            for key, value in values.items()
        ],
    )


def _altered(answer: AlterClientQuotasResponse) -> Results[QuotaEntity, None]:
    return {
        _entity(row.entity): outcome(
            row.error_code,
            f"the quotas of {_entity(row.entity)} were not altered",
            row.error_message,
            again=CONTROLLER_CODES,
        )
        for row in answer.entries
    }
