"""The error codes that groups are about, and what to do about those that users must mend."""

from __future__ import annotations

COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 15, 16
ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL, UNKNOWN_MEMBER_ID = 22, 23, 25
INVALID_SESSION_TIMEOUT, REBALANCE_IN_PROGRESS = 26, 27
MEMBER_ID_REQUIRED, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID = 79, 81, 82
FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR = 110, 111, 112
UNSUPPORTED_VERSION = 35

OLD_SESSION_LIMIT_MS = 30_000
"""The longest session that Kafka 0.9 allows as installed."""

ADVICE = {
    INCONSISTENT_GROUP_PROTOCOL: "; no assignor is common to all members, or the group is not "
    "one of consumers: compare partition_assignment_strategy",
    INVALID_SESSION_TIMEOUT: "; choose session_timeout_ms within the broker's "
    "group.min.session.timeout.ms and group.max.session.timeout.ms",
    GROUP_MAX_SIZE_REACHED: "; the broker's group.max.size allows no more members",
    FENCED_INSTANCE_ID: "; another consumer runs with the same group_instance_id",
    UNRELEASED_INSTANCE_ID: "; another consumer runs with the same group_instance_id, or its "
    "session has not ended yet",
    UNSUPPORTED_ASSIGNOR: "; choose one of the broker's group.consumer.assignors",
    UNSUPPORTED_VERSION: "; group_protocol='consumer' needs Kafka 4.0, or 3.7 with it enabled",
}
