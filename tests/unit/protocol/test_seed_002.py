"""The schemas of seed 002 against the real ones: equal, but for differences DESIGN.md tells."""

from __future__ import annotations

import pytest

from kclient._generated_codes import ERROR_CODES
from kclient.protocol import REQUESTS, RESPONSES, Message
from kclient.protocol.wire import Struct

PRODUCE, FETCH, METADATA, OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, API_VERSIONS = (
    (0, 9),
    (1, 13),
    (3, 12),
    (8, 9),
    (10, 4),
    (11, 9),
    (18, 3),
)

# The fields as that text has them, in its order; indented lines belong to the array above them.
SCHEMAS: dict[tuple[str, tuple[int, int]], str] = {
    ("request", PRODUCE): """
        transactional_id string, acks i16, timeout_ms i32, topic_data array
        topic_data: name string, partition_data array
        topic_data.partition_data: index i32, records records""",
    ("response", PRODUCE): """
        responses array, throttle_time_ms i32
        responses: name string, partition_responses array
        responses.partition_responses: index i32, error_code i16, base_offset i64,
            log_append_time_ms i64, log_start_offset i64""",
    ("request", FETCH): """
        replica_id i32, max_wait_ms i32, min_bytes i32, max_bytes i32, isolation_level i8,
            session_id i32, session_epoch i32, topics array, forgotten_topics_data array,
            rack_id string
        topics: topic string, partitions array
        topics.partitions: partition i32, current_leader_epoch i32, fetch_offset i64,
            last_fetched_epoch i32, log_start_offset i64, partition_max_bytes i32""",
    ("response", FETCH): """
        throttle_time_ms i32, error_code i16, session_id i32, responses array
        responses: topic string, partitions array
        responses.partitions: partition_index i32, error_code i16, high_watermark i64,
            last_stable_offset i64, log_start_offset i64, aborted_transactions array,
            preferred_read_replica i32, records records""",
    ("request", METADATA): """
        topics array, allow_auto_topic_creation bool,
            include_cluster_authorized_operations bool, include_topic_authorized_operations bool
        topics: name string""",
    ("response", METADATA): """
        throttle_time_ms i32, brokers array, cluster_id string, controller_id i32, topics array
        brokers: node_id i32, host string, port i32, rack string
        topics: error_code i16, name string, topic_id uuid, is_internal bool, partitions array,
            topic_authorized_operations i32
        topics.partitions: error_code i16, partition_index i32, leader_id i32, leader_epoch i32,
            replica_nodes array, isr_nodes array, offline_replicas array""",
    ("request", OFFSET_COMMIT): """
        group_id string, generation_id_or_member_epoch i32, member_id string,
            group_instance_id string, topics array
        topics: name string, partitions array
        topics.partitions: partition_index i32, committed_offset i64, committed_leader_epoch i32,
            commit_timestamp i64, committed_metadata string""",
    ("response", OFFSET_COMMIT): """
        throttle_time_ms i32, topics array
        topics: name string, partitions array
        topics.partitions: partition_index i32, error_code i16""",
    ("request", FIND_COORDINATOR): "key string, key_type i8",
    ("response", FIND_COORDINATOR): """
        throttle_time_ms i32, error_code i16, error_message string, node_id i32, host string,
            port i32""",
    ("request", JOIN_GROUP): """
        group_id string, session_timeout_ms i32, rebalance_timeout_ms i32, member_id string,
            group_instance_id string, protocol_type string, protocols array, reason string
        protocols: name string, metadata bytes""",
    ("response", JOIN_GROUP): """
        throttle_time_ms i32, error_code i16, generation_id i32, protocol_type string,
            protocol_name string, leader string, skip_assignment bool, member_id string,
            members array
        members: member_id string, group_instance_id string, metadata bytes""",
    ("request", API_VERSIONS): "client_software_name string, client_software_version string",
    ("response", API_VERSIONS): """
        error_code i16, api_keys array, throttle_time_ms i32
        api_keys: api_key i16, min_version i16, max_version i16""",
}

# What the text has and Kafka has not (-), and the other way round (+).
DIFFERENCES: dict[tuple[str, tuple[int, int]], set[str]] = {
    ("response", PRODUCE): {
        "+responses.partition_responses.record_errors array",
        "+responses.partition_responses.record_errors.batch_index i32",
        "+responses.partition_responses.record_errors.batch_index_error_message string",
        "+responses.partition_responses.error_message string",
    },
    ("request", FETCH): {
        "-topics.topic string",
        "+topics.topic_id uuid",
        "+forgotten_topics_data.topic_id uuid",
        "+forgotten_topics_data.partitions array",
    },
    ("response", FETCH): {
        "-responses.topic string",
        "+responses.topic_id uuid",
        "+responses.partitions.aborted_transactions.producer_id i64",
        "+responses.partitions.aborted_transactions.first_offset i64",
    },
    ("request", METADATA): {
        "-include_cluster_authorized_operations bool",
        "+topics.topic_id uuid",
    },
    ("request", OFFSET_COMMIT): {"-topics.partitions.commit_timestamp i64"},
    ("request", FIND_COORDINATOR): {"-key string", "+coordinator_keys array"},
    ("response", FIND_COORDINATOR): {
        "-error_code i16",
        "-error_message string",
        "-node_id i32",
        "-host string",
        "-port i32",
        "+coordinators array",
        "+coordinators.key string",
        "+coordinators.node_id i32",
        "+coordinators.host string",
        "+coordinators.port i32",
        "+coordinators.error_code i16",
        "+coordinators.error_message string",
    },
}

# Its error codes, in order from the first number; retriable ones are marked.
ERRORS = {
    -1: """UNKNOWN_SERVER_ERROR NONE OFFSET_OUT_OF_RANGE* CORRUPT_MESSAGE*
        UNKNOWN_TOPIC_OR_PARTITION* INVALID_FETCH_SIZE LEADER_NOT_AVAILABLE*
        NOT_LEADER_OR_FOLLOWER* REQUEST_TIMED_OUT* BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE
        MESSAGE_TOO_LARGE STALE_CONTROLLER_EPOCH OFFSET_METADATA_TOO_LARGE NETWORK_EXCEPTION*
        COORDINATOR_LOAD_IN_PROGRESS* COORDINATOR_NOT_AVAILABLE* NOT_COORDINATOR*""",
    29: """TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED
        INVALID_TIMESTAMP UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE UNSUPPORTED_VERSION""",
    48: """INVALID_PRODUCER_ID_MAPPING INVALID_TRANSACTION_TIMEOUT CONCURRENT_TRANSACTIONS*
        TRANSACTION_COORDINATOR_FENCED TRANSACTIONAL_ID_AUTHORIZATION_FAILED SECURITY_DISABLED
        OPERATION_NOT_ATTEMPTED""",
}
OTHERWISE_RETRIABLE = {"OFFSET_OUT_OF_RANGE", "REPLICA_NOT_AVAILABLE"}


@pytest.mark.parametrize("first", ERRORS)
def test_error_codes(first: int) -> None:
    shift = 1 if first == 48 else 0  # all of its transaction errors are one too low
    for code, word in enumerate(ERRORS[first].split(), first + shift):
        name, retriable, _ = ERROR_CODES[code]
        assert word.rstrip("*") == name
        assert (word.endswith("*") is retriable) is (name not in OTHERWISE_RETRIABLE)


@pytest.mark.parametrize("which", SCHEMAS, ids=lambda which: f"{which[0]}-{which[1]}")
def test_schema(which: tuple[str, tuple[int, int]]) -> None:
    kind, (key, version) = which
    cls: type[Message] = (REQUESTS if kind == "request" else RESPONSES)[key]
    written, real = _written(SCHEMAS[which]), _real(cls, version)
    missing = {f"-{field}" for field in written if field not in real}
    added = {f"+{field}" for field in real if field not in written}
    assert missing | added == DIFFERENCES.get(which, set())
    assert [f for f in written if f in real] == [f for f in real if f in written]


def _written(text: str) -> list[str]:
    fields: list[str] = []
    where = ""
    for word in text.replace("\n", " ").replace(",", " ").split():
        if word.endswith(":"):
            where = f"{word[:-1]}."
        elif fields and " " not in fields[-1]:
            fields[-1] += f" {word}"
        else:
            fields.append(where + word)
    return fields


def _real(cls: type[Struct], version: int, where: str = "") -> list[str]:
    """Every field of ``version`` that is always written, an array's own fields after all."""
    present = {
        name: field
        for name, field in cls.FIELDS.items()
        if field.exists_in(version) and field.tag is None
    }
    own = [f"{where}{name} {field.kind}" for name, field in present.items()]
    for name, field in present.items():
        if field.struct is not None:
            own += _real(field.struct, version, f"{where}{name}.")
    return own
