"""Frames over real sockets, however they are cut."""

from __future__ import annotations

import pickle
import random
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from kclient.deadline import Deadline
from kclient.errors import KafkaError, KafkaTimeout, ProtocolError, TransportError
from kclient.net.stream import Stream

from .peer import pair

MAX_FRAME = 8 << 20


@pytest.fixture
def ends() -> Iterator[tuple[Stream, socket.socket]]:
    with pair() as (ours, theirs):
        stream = Stream(ours, "broker:9092", MAX_FRAME)
        yield stream, theirs
        stream.close()


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def receive(stream: Stream) -> bytes:
    return bytes(stream.receive_frame(Deadline(20)))


def in_background(sock: socket.socket, data: bytes) -> threading.Thread:
    thread = threading.Thread(target=sock.sendall, args=(data,), daemon=True)
    thread.start()
    return thread


def test_a_frame_in_single_bytes_appears_when_it_is_whole(
    ends: tuple[Stream, socket.socket],
) -> None:
    stream, theirs = ends
    for byte in framed(b"answer")[:-1]:
        theirs.sendall(bytes([byte]))
        assert stream.poll_frame() is None
    theirs.sendall(b"r")
    assert receive(stream) == b"answer"
    assert stream.poll_frame() is None


def test_many_frames_in_one_piece_come_one_by_one(ends: tuple[Stream, socket.socket]) -> None:
    stream, theirs = ends
    bodies = [b"x" * size for size in (0, 1, 4, 1000, 3)]
    theirs.sendall(framed(*bodies))
    assert [receive(stream) for _ in bodies] == bodies


def test_frames_of_all_sizes_cut_at_random(ends: tuple[Stream, socket.socket]) -> None:
    stream, theirs = ends
    rng = random.Random(4)
    near = (65531, 65532, 65533, 65536, 70_000)  # around the size of the buffer
    sizes = [*near, 0, 5, 1 << 20, 3, *near, *(rng.randrange(200_000) for _ in range(20))]
    bodies = [rng.randbytes(size) for size in sizes]
    data = framed(*bodies)

    def send() -> None:
        pos = 0
        while pos < len(data):
            count = rng.choice((1, 3, 5, 4000, 65_536, 300_000))
            theirs.sendall(data[pos : pos + count])
            pos += count

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    assert [receive(stream) for _ in bodies] == bodies
    thread.join(20)


def test_a_large_frame_is_the_memory_it_was_received_into(
    ends: tuple[Stream, socket.socket],
) -> None:
    stream, theirs = ends
    body = bytes(MAX_FRAME)
    in_background(theirs, framed(body, b"next"))
    frame = stream.receive_frame(Deadline(20))
    assert isinstance(frame, bytearray)
    assert frame == body
    assert receive(stream) == b"next"


@pytest.mark.parametrize("size", [-1, -(1 << 31), MAX_FRAME + 1, (1 << 31) - 1])
def test_a_length_that_cannot_be_is_refused_before_any_memory_is_taken(
    ends: tuple[Stream, socket.socket], size: int
) -> None:
    stream, theirs = ends
    theirs.sendall(framed(b"fine") + struct.pack(">i", size) + b"more")
    assert receive(stream) == b"fine"
    with pytest.raises(ProtocolError, match=f"a frame of {size} bytes, where 0 to 8388608"):
        stream.receive_frame(Deadline(20))


def test_the_end_in_the_middle_of_a_frame(ends: tuple[Stream, socket.socket]) -> None:
    stream, theirs = ends
    theirs.sendall(framed(b"12345678")[:-1])
    theirs.close()
    with pytest.raises(TransportError, match="broker:9092: the broker closed the connection"):
        stream.receive_frame(Deadline(20))


def test_waiting_ends_with_the_deadline(ends: tuple[Stream, socket.socket]) -> None:
    stream, theirs = ends
    theirs.sendall(framed(b"12345678")[:-1])
    with pytest.raises(KafkaTimeout, match="broker:9092: .* while waiting for an answer"):
        stream.receive_frame(Deadline(0.05))


def test_a_deadline_of_a_year_is_waited_for_in_parts(ends: tuple[Stream, socket.socket]) -> None:
    stream, theirs = ends
    theirs.sendall(framed(b"answer"))
    assert bytes(stream.receive_frame(Deadline(365 * 86_400))) == b"answer"


def test_many_and_large_pieces_arrive_in_order(ends: tuple[Stream, socket.socket]) -> None:
    stream, theirs = ends
    rng = random.Random(7)
    pieces = [rng.randbytes(rng.choice((0, 1, 10, 100))) for _ in range(3000)]
    pieces += [rng.randbytes(5 << 20), b"tail"]
    wanted = b"".join(pieces)
    got = bytearray()

    def read() -> None:
        while len(got) < len(wanted):
            got.extend(theirs.recv(100_000))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    stream.send(pieces, Deadline(20))
    thread.join(20)
    assert not stream.has_unsent
    assert got == wanted


def test_what_the_system_does_not_take_is_sent_while_waiting_for_the_answer(
    ends: tuple[Stream, socket.socket],
) -> None:
    stream, theirs = ends
    stream.queue([bytes(20 << 20)])
    had_unsent = stream.has_unsent
    assert had_unsent
    left = [20 << 20]

    def answer_when_all_is_here() -> None:
        while left[0]:
            left[0] -= len(theirs.recv(1 << 20))
        theirs.sendall(framed(b"thanks"))

    thread = threading.Thread(target=answer_when_all_is_here, daemon=True)
    thread.start()
    assert receive(stream) == b"thanks"
    assert not stream.has_unsent
    thread.join(20)


def test_sending_to_one_that_does_not_read_ends_with_the_deadline(
    ends: tuple[Stream, socket.socket],
) -> None:
    stream, _ = ends
    with pytest.raises(KafkaTimeout, match="while sending"):
        stream.send([bytes(50 << 20)], Deadline(0.1))


def test_sending_to_one_that_is_gone(ends: tuple[Stream, socket.socket]) -> None:
    stream, theirs = ends
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    theirs.close()
    with pytest.raises(TransportError, match="while sending"):
        stream.send([bytes(1 << 20)] * 100, Deadline(20))


def test_abort_from_another_thread_wakes_whoever_waits(ends: tuple[Stream, socket.socket]) -> None:
    stream, _ = ends
    failures: list[KafkaError] = []

    def wait() -> None:
        try:
            stream.receive_frame(Deadline(60))
        except KafkaError as error:
            failures.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    stream.abort()
    thread.join(20)
    assert [type(error) for error in failures] == [TransportError]


def test_abort_cuts_a_pause_short(ends: tuple[Stream, socket.socket]) -> None:
    stream, _ = ends
    thread = threading.Thread(target=stream.pause, args=(3600,), daemon=True)
    thread.start()
    stream.abort()
    thread.join(20)
    assert not thread.is_alive()


def test_answers_do_not_cut_a_pause_short(ends: tuple[Stream, socket.socket]) -> None:
    stream, theirs = ends
    theirs.sendall(framed(b"early"))
    paused = threading.Event()

    def pause() -> None:
        stream.pause(0.2)
        paused.set()

    thread = threading.Thread(target=pause, daemon=True)
    thread.start()
    assert paused.wait(20)
    thread.join(20)
    assert receive(stream) == b"early"


def test_quiet_until_something_comes_or_the_other_side_goes(
    ends: tuple[Stream, socket.socket],
) -> None:
    stream, theirs = ends
    quiet = [stream.is_quiet]
    theirs.sendall(framed(b"a", b"b"))
    for body in (b"a", b"b"):
        assert receive(stream) == body
        quiet.append(stream.is_quiet)
    theirs.close()
    quiet.append(stream.is_quiet)
    assert quiet == [True, False, True, False]


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP: is this the port of a web server"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "it speaks SSH"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "it speaks TLS: set security_protocol to SSL"),
        (b"220 mail.example.org ESMTP\r\n", r"begins with b'220 mail.example.org ESM'"),
    ],
)
def test_others_than_kafka_are_recognised_by_what_they_say(
    ends: tuple[Stream, socket.socket], said: bytes, sentence: str
) -> None:
    stream, theirs = ends
    stream._max_frame = 512 << 20
    theirs.sendall(said)
    with pytest.raises(ProtocolError, match=sentence) as failure:
        stream.receive_frame(Deadline(20))
    assert failure.value.stage == "kafka"  # type: ignore[attr-defined]
    assert str(pickle.loads(pickle.dumps(failure.value))) == str(failure.value)


def test_a_later_frame_may_have_the_length_of_an_alert(ends: tuple[Stream, socket.socket]) -> None:
    stream, theirs = ends
    stream._max_frame = 512 << 20
    theirs.sendall(framed(b"first") + b"\x15\x03\x00\x00" + b"the beginning of 352 MB")
    assert receive(stream) == b"first"
    assert stream.poll_frame() is None  # it waits for the rest
