"""Features of the cluster, which an operator turns on when all brokers know them (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kclient.cluster.call import Call
from kclient.errors import InvalidRequest
from kclient.operations.cluster import VersionRange
from kclient.operations.given import INT16_MAX, code_of, need
from kclient.operations.many import (
    CONTROLLER_CODES,
    CallFor,
    Many,
    Results,
    check,
    outcome,
    reading,
)
from kclient.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kclient.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UpgradeType = Literal["upgrade", "safe_downgrade", "unsafe_downgrade"]
_UPGRADES = {"upgrade": 1, "safe_downgrade": 2, "unsafe_downgrade": 3}


@dataclass(frozen=True)
class Features:
    """What the cluster uses (``finalized``) and what the broker that was asked could use.

    ``epoch`` grows with every change, None if the broker does not tell.
    """

    finalized: Mapping[str, VersionRange]
    supported: Mapping[str, VersionRange]
    epoch: int | None = None


@dataclass(frozen=True)
class FeatureUpdate:
    """The level a feature is to have; 0 turns it off. Raises InvalidRequest."""

    level: int
    upgrade_type: UpgradeType = "upgrade"

    def __post_init__(self) -> None:
        code_of(_UPGRADES, self.upgrade_type, "type of upgrade")
        if not 0 <= self.level <= INT16_MAX or (not self.level and self.upgrade_type == "upgrade"):
            raise InvalidRequest(f"a level is 1 or more, or 0 by a downgrade, not {self.level}")


def describe() -> Call[Features]:
    """The features that are on, and those that could be (since Kafka 2.7)."""

    def build(version: int) -> ApiVersionsRequest:
        need(version, 3, "tell features", "2.7")
        return ApiVersionsRequest(client_software_name="kclient", client_software_version="admin")

    def read(answer: ApiVersionsResponse) -> Features:
        check(answer.error_code, "features were not told")
        epoch = answer.finalized_features_epoch
        return Features(
            finalized={
                row.name: VersionRange(row.min_version_level, row.max_version_level)
                for row in answer.finalized_features
            },
            supported={
                row.name: VersionRange(row.min_version, row.max_version)
                for row in answer.supported_features
            },
            epoch=epoch if epoch >= 0 else None,
        )

    return Call(ApiVersionsRequest, build, reading(ApiVersionsResponse, read))


def update(given: Mapping[str, int | FeatureUpdate], *, validate_only: bool) -> Many[str, None]:
    """Set the levels of features, all or none."""
    updates = {
        name: FeatureUpdate(each) if isinstance(each, int) else each for name, each in given.items()
    }

    def call(items: Sequence[str], timeout_ms: int) -> CallFor[str, None]:
        def build(version: int) -> UpdateFeaturesRequest:
            if validate_only:
                need(version, 1, "only validate features", "3.3")
            return UpdateFeaturesRequest(
                timeout_ms=timeout_ms,
                feature_updates=[_key(item, updates[item], version) for item in items],
                validate_only=validate_only,
            )

        def read(answer: UpdateFeaturesResponse) -> Results[str, None]:
            what = "no feature was updated"
            check(answer.error_code, what, answer.error_message, again=CONTROLLER_CODES)
            told: Results[str, None] = {
                row.feature: outcome(
                    row.error_code, f"feature {row.feature!r} was not updated", row.error_message
                )
                for row in answer.results
            }
            return {item: told.get(item) for item in items}  # since v2 they share one result

        return Call(UpdateFeaturesRequest, build, reading(UpdateFeaturesResponse, read))

    return Many("updating features", list(updates), call)


def _key(name: str, update: FeatureUpdate, version: int) -> FeatureUpdateKey:
    if version == 0:
        return FeatureUpdateKey(
            feature=name,
            max_version_level=update.level,
            allow_downgrade=update.upgrade_type != "upgrade",
        )
    code = _UPGRADES[update.upgrade_type]
    return FeatureUpdateKey(feature=name, max_version_level=update.level, upgrade_type=code)
