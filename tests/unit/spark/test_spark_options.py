from __future__ import annotations

import pickle

import pytest

from kclient import TopicPartition
from kclient.errors import ConfigError
from kclient.spark.options import (
    EARLIEST,
    LATEST,
    Bound,
    ReadOptions,
    Topics,
    WriteOptions,
    read_options,
    write_options,
)

LEAST = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders"}


def read(**options: str) -> ReadOptions:
    return read_options({**LEAST, **options}, is_streaming=False)


def write(**options: str) -> WriteOptions:
    return write_options({"kafka.bootstrap.servers": "a:1", **options})


def test_names_are_known_in_any_case() -> None:
    found = read(INCLUDEHEADERS="true", minpartitions="3", MaxRecordsPerPartition="10")
    assert (found.include_headers, found.min_partitions) == (True, 3)
    assert found.max_records_per_partition == 10


def test_defaults() -> None:
    found = read()
    assert found.topics == Topics(names=("orders",))
    assert (found.start, found.end) == (Bound(EARLIEST), Bound(LATEST))
    assert found.fail_on_data_loss
    assert found.client["isolation_level"] == "read_committed"
    assert read_options(LEAST, is_streaming=True).start == Bound(LATEST)
    assert not write().is_exactly_once


def test_client_options_are_passed_through() -> None:
    found = read(**{"kafka.isolation.level": "read_uncommitted", "kafka.fetch.max.wait.ms": "7"})
    assert found.client["isolation_level"] == "read_uncommitted"
    assert found.client["fetch_max_wait_ms"] == 7
    assert write(**{"kafka.compression.type": "lz4"}).client["compression_type"] == "lz4"


def test_a_time_for_all_wins_over_times_and_offsets() -> None:
    found = read(
        startingTimestamp="5",
        startingOffsetsByTimestamp='{"orders": {"0": 6}}',
        startingOffsets='{"orders": {"0": 7}}',
    )
    assert found.start == Bound(time_ms=5)
    found = read(startingOffsetsByTimestamp='{"orders": {"0": 6}}', startingOffsets="latest")
    assert found.start == Bound(times_ms={TopicPartition("orders", 0): 6})
    found = read(startingOffsets='{"orders": {"0": 7, "1": -2}}')
    assert found.start.offsets == {TopicPartition("orders", 0): 7, TopicPartition("orders", 1): -2}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
        ({"bootstrap.servers": "b:1"}, "did you mean 'kafka.bootstrap.servers'"),
        ({"nonsense": "1"}, "begin with 'kafka.'"),
        ({"topic": "x"}, "for writing only"),
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers is required"),
        ({"kafka.fetch.max.wait": "1"}, "fetch.max.wait.ms"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "kclient.commitGroup"),
        ({"subscribePattern": "a.*"}, "not subscribe and subscribePattern"),
        ({"subscribe": " , "}, "names no topic"),
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "cannot be latest"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "cannot be earliest"),
        ({"startingOffsets": "oldest"}, 'expected as {"topic"'),
        ({"startingOffsets": "[1]"}, "no object"),
        ({"startingOffsets": "{}"}, "names no partition"),
        ({"startingOffsets": '{"orders": 3}'}, "'orders' has no partitions"),
        ({"startingOffsets": '{"orders": {"x": 3}}'}, "'x': 3"),
        ({"startingOffsets": '{"orders": {"0": "3"}}'}, "'0': '3'"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "'0': -3"),
        ({"startingOffsetsByTimestamp": '{"orders": {"0": -2}}'}, "'0': -2"),
        ({"startingTimestamp": "soon"}, "a time in ms"),
        ({"minPartitions": "0"}, "whole number above 0"),
        ({"minPartitions": "many"}, "whole number above 0"),
        ({"failOnDataLoss": "perhaps"}, "true or false"),
        ({"maxTriggerDelay": "a while"}, "'15m'"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "one of error, latest"),
    ],
)
def test_what_is_wrong_is_told(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(**options)
    assert said in str(caught.value)


def test_other_ways_to_name_topics() -> None:
    base = {"kafka.bootstrap.servers": "a:1"}
    found = read_options({**base, "subscribePattern": "a.*"}, is_streaming=False)
    assert found.topics == Topics(pattern="a.*")
    found = read_options({**base, "assign": '{"a": [0, 2]}'}, is_streaming=False)
    assert found.topics.partitions == (TopicPartition("a", 0), TopicPartition("a", 2))
    for wrong in ("[]", '{"a": 1}', '{"a": ["0"]}', "{}"):
        with pytest.raises(ConfigError, match="assign is malformed"):
            read_options({**base, "assign": wrong}, is_streaming=False)
    with pytest.raises(ConfigError, match="no regular expression"):
        read_options({**base, "subscribePattern": "("}, is_streaming=False)
    with pytest.raises(ConfigError, match="none was given"):
        read_options(base, is_streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(ConfigError, match="endingOffsets is not for streams"):
        read_options({**LEAST, "endingOffsets": "latest"}, is_streaming=True)


def test_before_spark_says_which_both_may_be() -> None:
    given = {**LEAST, "startingOffsets": "latest"}
    assert read_options(given, is_streaming=None).start == Bound(LATEST)


def test_what_the_connector_has_and_we_need_not() -> None:
    read(groupIdPrefix="g", **{"fetchOffset.numRetries": "3"})
    write(checkpointLocation="/tmp/x")


def test_delivery() -> None:
    assert write(**{"kclient.delivery": "exactly-once"}).is_exactly_once
    with pytest.raises(ConfigError, match="one of at-least-once, exactly-once"):
        write(**{"kclient.delivery": "twice"})
    with pytest.raises(ConfigError, match="kclient.transactionalId is for"):
        write(**{"kclient.transactionalId": "x"})
    with pytest.raises(ConfigError, match="kclient.delivery and kclient.transactionalId"):
        write(**{"kafka.transactional.id": "x"})
    with pytest.raises(ConfigError, match="for reading only"):
        write(subscribe="x")


def test_they_pickle_and_show_no_secret() -> None:
    secret = {"kafka.sasl.password": "s3cret"}
    for options in (read(**secret), write(**secret)):
        assert "s3cret" not in repr(options)
        assert pickle.loads(pickle.dumps(options)) == options
        assert options.client["sasl_plain_password"] == "s3cret"
