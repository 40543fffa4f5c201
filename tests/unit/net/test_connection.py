"""Requests and answers on one connection: matched, or the connection is closed."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from kclient.deadline import Deadline
from kclient.errors import (
    KafkaError,
    KafkaTimeout,
    ProtocolError,
    TransportError,
    UnsupportedVersion,
)
from kclient.net.connection import Connection
from kclient.net.endpoint import Endpoint
from kclient.net.stream import Stream
from kclient.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kclient.protocol.messages.metadata import MetadataRequest
from kclient.protocol.negotiate import Versions

from .peer import Line, pair

# Heartbeat v0 to v3: v1 brought a throttle time. ApiVersions v2 and later mean KIP-219.
MODERN = Versions({12: (0, 3), 18: (0, 4)})
BEFORE_KIP_219 = Versions({12: (0, 3), 18: (0, 1)})


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Line]]:
    with pair() as (ours, theirs):
        stream = Stream(ours, "broker:9092", 1 << 20)
        connection = Connection(stream, Endpoint(1, "broker", 9092), client_id="test")
        connection.agree(MODERN)
        yield connection, Line(theirs)
        connection.close()


Ends = tuple[Connection, Line]


def beat(number: int = 0) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=number, member_id="m")


def answered(error_code: int = 0, throttle_ms: int = 0) -> bytes:
    return HeartbeatResponse(error_code=error_code, throttle_time_ms=throttle_ms).encode(3)


def code(connection: Connection) -> int:
    response = connection.decode(connection.receive(Deadline(20)))
    assert isinstance(response, HeartbeatResponse)
    return response.error_code


def test_pipelined_requests_are_answered_in_their_order(ends: Ends) -> None:
    connection, line = ends
    numbers = [connection.send(beat(each), Deadline(20)).correlation_id for each in range(5)]
    assert len(set(numbers)) == 5
    assert connection.in_flight == 5
    for error_code, number in enumerate(numbers):
        assert line.request() == (12, 3, number)
        line.answer(number, answered(error_code))
    assert [code(connection) for _ in numbers] == [0, 1, 2, 3, 4]
    assert connection.in_flight == 0
    assert connection.is_open


def test_posted_requests_are_answered_without_waiting(ends: Ends) -> None:
    connection, line = ends
    sent = connection.post(beat())
    assert connection.oldest == sent
    assert connection.poll() is None
    line.answer(line.request()[2], answered(16))
    with_answer = None
    while with_answer is None:
        with_answer = connection.poll()
    assert with_answer.to == sent
    assert connection.oldest is None


def test_a_request_without_an_answer_leaves_nothing_in_flight(ends: Ends) -> None:
    connection, line = ends
    connection.send(beat(1), Deadline(20), answered=False)
    connection.send(beat(2), Deadline(20))
    line.request()
    line.answer(line.request()[2], answered(7))
    assert code(connection) == 7


def wrong_number(line: Line, number: int) -> None:
    line.answer(number + 1, answered())


def unasked(line: Line, number: int) -> None:
    line.answer(number, answered())
    line.answer(number + 1, answered())


def twice(line: Line, number: int) -> None:
    line.answer(number, answered())
    line.answer(number, answered())


def too_short(line: Line, number: int) -> None:
    line.say(struct.pack(">ih", 2, 0))


def negative(line: Line, number: int) -> None:
    line.say(struct.pack(">i", -5))


def oversized(line: Line, number: int) -> None:
    line.say(struct.pack(">i", 2 << 20))


@pytest.mark.parametrize(
    ("misbehave", "sentence"),
    [
        (wrong_number, "broker 1 at broker:9092 answered request 1 where 0 was next"),
        (too_short, "a response of 2 bytes has no correlation id"),
        (negative, "a frame of -5 bytes"),
        (oversized, "a frame of 2097152 bytes"),
    ],
)
def test_an_answer_that_cannot_be_matched_closes_the_connection(
    ends: Ends, misbehave: Callable[[Line, int], None], sentence: str
) -> None:
    connection, line = ends
    connection.send(beat(), Deadline(20))
    misbehave(line, line.request()[2])
    with pytest.raises(ProtocolError, match=sentence):
        connection.receive(Deadline(20))
    assert not connection.is_open
    assert line.sock.recv(1) == b""
    with pytest.raises(TransportError, match="is closed"):
        connection.send(beat(), Deadline(20))


@pytest.mark.parametrize("misbehave", [unasked, twice])
def test_an_answer_nobody_asked_for_is_nobodys(
    ends: Ends, misbehave: Callable[[Line, int], None]
) -> None:
    connection, line = ends
    connection.send(beat(), Deadline(20))
    misbehave(line, line.request()[2])
    assert code(connection) == 0
    # Seen before the next request leaves ...
    line.sock.shutdown(socket.SHUT_WR)
    assert connection.is_stale
    # ... and never taken for that one's answer.
    connection.send(beat(), Deadline(20))
    line.request()
    try:
        code(connection)
    except ProtocolError as error:
        assert "answered request" in str(error)
    else:
        assert misbehave is unasked  # the number it guessed is the one that was next
    connection.close()


def test_an_answer_without_any_request_is_a_protocol_error(ends: Ends) -> None:
    connection, line = ends
    line.answer(0, answered())
    with pytest.raises(ProtocolError, match="that nobody asked for"):
        connection.receive(Deadline(20))
    assert not connection.is_open


def test_an_answer_of_another_shape_closes_the_connection(ends: Ends) -> None:
    connection, line = ends
    connection.send(beat(), Deadline(20))
    line.answer(line.request()[2], answered() + b"more")
    with pytest.raises(ProtocolError):
        code(connection)
    assert not connection.is_open


def test_a_timeout_closes_the_connection_for_the_answer_may_still_come(ends: Ends) -> None:
    connection, line = ends
    connection.send(beat(), Deadline(20))
    line.request()
    with pytest.raises(KafkaTimeout):
        connection.receive(Deadline(0.05))
    assert not connection.is_open


def test_an_interrupt_while_waiting_closes_the_connection(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, _ = ends

    def interrupted(self: Stream, deadline: Deadline) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(Stream, "receive_frame", interrupted)
    connection.send(beat(), Deadline(20))
    with pytest.raises(KeyboardInterrupt):
        connection.receive(Deadline(20))
    assert not connection.is_open


def test_a_request_that_has_no_encoding_leaves_the_connection_as_it_was(ends: Ends) -> None:
    connection, line = ends
    with pytest.raises(UnsupportedVersion, match="the broker does not have Metadata"):
        connection.send(MetadataRequest(), Deadline(20))
    with pytest.raises(UnsupportedVersion):
        connection.send(HeartbeatRequest(group_instance_id="i"), Deadline(20), version=2)
    sent = connection.send(beat(), Deadline(20))
    assert line.request()[2] == sent.correlation_id
    assert connection.in_flight == 1


def test_the_versions_of_both_sides_are_named_when_there_is_none_in_common() -> None:
    with pair() as (ours, _):
        connection = Connection(
            Stream(ours, "b:1", 1), Endpoint(1, "b", 1), client_id="", caps={12: 1}
        )
        connection.agree(Versions({12: (2, 9)}))
        with pytest.raises(
            UnsupportedVersion,
            match="no common version of Heartbeat: the broker speaks v2 to v9, kclient v0 to v1",
        ):
            connection.version_of(HeartbeatRequest)
        connection.close()


def throttled(ends: Ends, milliseconds: int) -> Connection:
    connection, line = ends
    connection.send(beat(), Deadline(20))
    line.answer(line.request()[2], answered(throttle_ms=milliseconds))
    assert code(connection) == 0
    return connection


def test_a_throttle_time_keeps_the_next_request_back(ends: Ends) -> None:
    connection = throttled(ends, 3_600_000)
    with pytest.raises(KafkaTimeout, match="throttles this client for 3.6e.03 s more.*quotas"):
        connection.send(beat(), Deadline(5))
    assert connection.is_open  # nothing is wrong with it: a call with more time may use it
    assert connection.in_flight == 0


def test_a_throttled_request_leaves_when_the_time_is_over(ends: Ends) -> None:
    connection = throttled(ends, 100)
    assert connection.ready_at(0.0) == connection.throttled_until > 0
    connection.send(beat(), Deadline(20))
    assert ends[1].request()[0] == 12
    assert connection.ready_at(1e12) == 1e12


def test_a_broker_before_2_0_has_done_the_waiting_itself(ends: Ends) -> None:
    ends[0].agree(BEFORE_KIP_219)
    connection = throttled(ends, 3_600_000)
    connection.send(beat(), Deadline(5))
    assert ends[1].request()[0] == 12


def test_closing_ends_a_throttled_wait(ends: Ends) -> None:
    connection = throttled(ends, 3_600_000)
    failures: list[KafkaError] = []

    def send() -> None:
        try:
            connection.send(beat(), Deadline(7200))
            connection.receive(Deadline(7200))
        except KafkaError as error:
            failures.append(error)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    connection.abort()
    thread.join(20)
    assert [type(error) for error in failures] == [TransportError]


def test_the_numbers_of_requests_start_over_before_they_are_negative(ends: Ends) -> None:
    connection, line = ends
    connection._next_id = (1 << 31) - 1
    for number in ((1 << 31) - 1, 0):
        connection.send(beat(), Deadline(20))
        assert line.request() == (12, 3, number)
        line.answer(number, answered())
        assert code(connection) == 0


def test_a_repr_says_where_and_how_it_is(ends: Ends) -> None:
    connection, _ = ends
    connection.send(beat(), Deadline(20))
    assert repr(connection) == "<Connection to broker 1 at broker:9092, open, 1 in flight>"
    connection.close()
    assert "closed" in repr(connection)
