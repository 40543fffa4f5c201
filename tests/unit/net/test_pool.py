"""The pool as its clients see it: connections come and go without an error reaching anyone."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kclient.config import ClientOptions, resolve
from kclient.deadline import Deadline
from kclient.errors import (
    ClientClosedError,
    ForkedClientError,
    KafkaError,
    KafkaTimeout,
    TransportError,
)
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.pool import Pool
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.negotiate import KAFKA_0_8
from kclient.testing import FakeCluster
from kclient.testing.fake import close_after, drop

from .peer import Line, Peer

NEVER = Deadline(3600)


def pool_of(**options: Any) -> Pool:
    return Pool(resolve(ClientOptions, {"bootstrap_servers": "127.0.0.1", **options}))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        yield running


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = pool_of()
    yield made
    made.close()


def endpoint(cluster: FakeCluster) -> Endpoint:
    host, port = cluster.address(1).split(":")
    return Endpoint(1, host, int(port))


def ask(connection: Connection) -> None:
    version = connection.version_of(MetadataRequest)
    connection.ask(MetadataRequest(topics=[]), version, Deadline(20))


def use(pool: Pool, where: Endpoint, lane: str = "admin", deadline: Deadline = NEVER) -> Connection:
    with pool.lease(where, lane, deadline) as connection:
        ask(connection)
    return connection


def in_thread(work: Any) -> tuple[threading.Thread, list[KafkaError]]:
    failures: list[KafkaError] = []

    def run() -> None:
        try:
            work()
        except KafkaError as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, failures


def test_a_connection_is_used_again_on_its_lane_and_only_there(
    cluster: FakeCluster, pool: Pool
) -> None:
    where = endpoint(cluster)
    first = use(pool, where, "produce")
    assert use(pool, where, "produce") is first
    assert use(pool, where, "fetch") is not first
    assert cluster.connections(1) == 2


def test_lanes_do_not_wait_for_each_other(cluster: FakeCluster, pool: Pool) -> None:
    with pool.lease(endpoint(cluster), "fetch", NEVER):
        use(pool, endpoint(cluster), "group", Deadline(20))


def test_one_owner_at_a_time(cluster: FakeCluster, pool: Pool) -> None:
    with (
        pool.lease(endpoint(cluster), "admin", NEVER),
        pytest.raises(KafkaTimeout, match="other threads used the admin connection to broker 1"),
    ):
        pool.acquire(endpoint(cluster), "admin", Deadline(0.05))


def test_whoever_waits_gets_the_connection_next(cluster: FakeCluster, pool: Pool) -> None:
    used: list[Connection] = []
    with pool.lease(endpoint(cluster), "admin", NEVER) as connection:
        thread, failures = in_thread(lambda: used.append(use(pool, endpoint(cluster))))
    thread.join(20)
    assert (used, failures) == ([connection], [])


def test_an_idle_connection_is_closed_without_an_error(cluster: FakeCluster) -> None:
    pool = pool_of(connections_max_idle_ms=1)
    where = endpoint(cluster)
    first = use(pool, where)
    first.last_used = time.monotonic() - 60
    pool.close_idle()
    assert not first.is_open
    assert use(pool, where) is not first
    pool.close()


def test_a_connection_in_use_is_not_idle_however_long_it_takes(cluster: FakeCluster) -> None:
    pool = pool_of(connections_max_idle_ms=1)
    with pool.lease(endpoint(cluster), "fetch", NEVER) as connection:
        connection.last_used = time.monotonic() - 60
        pool.close_idle()
        ask(connection)
    pool.close()


def test_a_broker_that_hung_up_while_idle_is_not_noticed(cluster: FakeCluster, pool: Pool) -> None:
    first = use(pool, endpoint(cluster))
    cluster.hang_up(1)
    assert use(pool, endpoint(cluster)) is not first


def test_a_broker_that_was_restarted_and_upgraded_is_asked_anew(pool: Pool) -> None:
    with FakeCluster(speaks=KAFKA_0_8) as cluster:
        assert use(pool, endpoint(cluster)).versions.kafka == "0.8"
        cluster.kill(1)
        cluster.set_versions(1, {})
        cluster.start(1)
        assert use(pool, endpoint(cluster)).versions.kafka == ""


def test_a_broker_that_moved_is_connected_to_where_it_is_now(pool: Pool) -> None:
    with FakeCluster() as old, FakeCluster() as new:
        use(pool, endpoint(old))
        assert use(pool, endpoint(new)).address == new.address(1)
        assert len(new.requests("Metadata")) == 2  # the probe's, and ours


def test_a_connection_given_back_with_an_answer_due_is_closed(
    cluster: FakeCluster, pool: Pool
) -> None:
    with pool.lease(endpoint(cluster), "admin", NEVER) as connection:
        connection.send(MetadataRequest(topics=[]), Deadline(20))
    assert not connection.is_open
    use(pool, endpoint(cluster))


def test_an_error_closes_the_connection_and_the_next_one_works(
    cluster: FakeCluster, pool: Pool
) -> None:
    use(pool, endpoint(cluster))
    cluster.on("Metadata", close_after())
    with pytest.raises(TransportError):
        use(pool, endpoint(cluster))
    use(pool, endpoint(cluster))


def refused(**options: Any) -> tuple[Pool, Endpoint]:
    """A pool, and an address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return pool_of(**options), Endpoint(-1, "127.0.0.1", port)


def test_failures_to_connect_are_waited_for_longer_and_longer() -> None:
    pool, where = refused(reconnect_backoff_ms=20, reconnect_backoff_max_ms=100)
    waits = []
    for _ in range(6):
        with pytest.raises(TransportError, match="Connection refused"):
            pool.acquire(where, "admin", NEVER)
        waits.append(pool.backoff_until(where) - time.monotonic())
    # 20, 40, 80, 100, 100 ms, each give or take a fifth; what has passed since is little.
    for wait, planned in zip(waits, (0.02, 0.04, 0.08, 0.1, 0.1, 0.1), strict=True):
        assert 0 < wait <= planned * 1.2
    assert max(waits) > 0.05
    pool.close()


def test_no_time_for_the_backoff_tells_why_it_backs_off() -> None:
    pool, where = refused(reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
    with pytest.raises(TransportError):
        pool.acquire(where, "admin", NEVER)
    with pytest.raises(KafkaTimeout, match="no time left to reach .* Connection refused") as got:
        pool.acquire(where, "admin", Deadline(5))
    assert got.value.cause is pool.last_error(where)
    pool.close()


def test_a_success_ends_the_backoff(cluster: FakeCluster) -> None:
    pool = pool_of(reconnect_backoff_ms=1, reconnect_backoff_max_ms=1)
    where = endpoint(cluster)
    cluster.kill(1)
    with pytest.raises(TransportError):
        use(pool, where)
    assert pool.last_error(where) is not None
    cluster.start(1)
    use(pool, where)
    assert pool.backoff_until(where) == 0
    assert pool.last_error(where) is None
    pool.close()


def test_close_ends_a_wait_for_an_answer(cluster: FakeCluster, pool: Pool) -> None:
    use(pool, endpoint(cluster))
    fault = cluster.on("Metadata", drop())
    thread, failures = in_thread(lambda: use(pool, endpoint(cluster)))
    fault.await_hit(20)
    pool.close()
    thread.join(20)
    assert [type(error) for error in failures] == [TransportError]
    with pytest.raises(ClientClosedError, match="the client is closed"):
        use(pool, endpoint(cluster))


def test_close_ends_a_wait_for_a_lane(cluster: FakeCluster, pool: Pool) -> None:
    with pool.lease(endpoint(cluster), "admin", NEVER):
        thread, failures = in_thread(lambda: use(pool, endpoint(cluster)))
        pool.close()
    thread.join(20)
    assert [type(error) for error in failures] == [ClientClosedError]
    assert cluster.connections(1) <= 1  # no new one was made for it


def test_close_ends_a_wait_for_a_backoff() -> None:
    pool, where = refused(reconnect_backoff_ms=60_000, reconnect_backoff_max_ms=60_000)
    with pytest.raises(TransportError):
        pool.acquire(where, "admin", NEVER)
    thread, failures = in_thread(lambda: pool.acquire(where, "admin", NEVER))
    pool.close()
    thread.join(20)
    assert [type(error) for error in failures] == [ClientClosedError]


def test_close_during_the_opening_ends_it(pool: Pool) -> None:
    asked = threading.Event()

    def hear_and_say_nothing(line: Line) -> None:
        line.request()
        asked.set()
        line.drain()

    with Peer(hear_and_say_nothing) as peer:
        where = Endpoint(1, "127.0.0.1", peer.port)
        thread, failures = in_thread(lambda: use(pool, where, deadline=Deadline(3600)))
        assert asked.wait(20)
        pool.close()
        thread.join(20)
    (error,) = failures
    assert isinstance(error, (ClientClosedError, TransportError))


def test_close_twice_is_fine(pool: Pool) -> None:
    pool.close()
    pool.close()
    assert repr(pool) == "<Pool 0 connections, closed>"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_told_and_cannot_harm_its_parent(
    cluster: FakeCluster, pool: Pool
) -> None:
    where = endpoint(cluster)
    use(pool, where, "admin")
    with pool.lease(where, "fetch", NEVER) as in_use:
        pid = os.fork()
        if pid == 0:  # nothing of pytest may run in the child
            code = 1
            try:
                pool.acquire(where, "admin", Deadline(5))
            except ForkedClientError as error:
                code = 0 if "make a client in the child" in str(error) else 2
            try:
                pool.close()
            except BaseException:
                code = 3
            sys.stdout.flush()
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        ask(in_use)
    use(pool, where, "admin")
    assert cluster.connections(1) == 2


def test_the_names_of_brokers_that_cannot_be_reached_are_told(pool: Pool) -> None:
    with pytest.raises(TransportError) as got:
        pool.acquire(Endpoint(2, "kafka-2.invalid", 9092), "admin", Deadline(20))
    assert str(got.value).startswith(
        "the cluster was reached, but broker 2 advertises kafka-2.invalid:9092: "
    )
    assert "'kafka-2.invalid' cannot be resolved here" in str(got.value)
    assert "advertised.listeners of that broker must name what clients can reach" in str(got.value)
    assert got.value.stage == "dns"  # type: ignore[attr-defined]
