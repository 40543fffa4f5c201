"""What can go wrong with a request: small values, to be combined in ``FakeCluster.on``.

Each acts at one or more of three stages: when the request has arrived, when its answer is
made, and when the answer's frame is about to be sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kclient.protocol import Message
from kclient.protocol.exchange import LENGTH
from kclient.testing.fake.call import Call, HangUp, Silence
from kclient.testing.fake.journal import SeenRequest
from kclient.testing.fake.places import set_error, set_throttle
from kclient.types import TopicPartition

_HEAD = LENGTH.size * 2  # a frame's length and its correlation id
_STRANGE_ID = 0x5EED
_NOISE = 16


@dataclass(frozen=True, repr=False)
class Fault:
    """Nothing goes wrong: a subclass overrides the stages that it acts at."""

    def __repr__(self) -> str:
        # As the test wrote it: delay(seconds=0.2), not the class behind it.
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower().strip("_")
        return f"{name}({', '.join(f'{key}={value!r}' for key, value in vars(self).items())})"

    def arrive(self, call: Call) -> None:
        """The request is here; nothing has been done about it."""

    def answer(self, call: Call, message: Message) -> Message:
        """The request is done, ``message`` its answer; return the one to send."""
        return message

    def transmit(self, call: Call, frame: bytes) -> bytes:
        """``frame`` is the whole answer; return the bytes to send."""
        return frame


@dataclass(frozen=True, repr=False)
class _ErrorCode(Fault):
    code: int
    partition: TopicPartition | None
    processed: bool

    def arrive(self, call: Call) -> None:
        if not self.processed:
            call.errors.append((self.code, self.partition))

    def answer(self, call: Call, message: Message) -> Message:
        if self.processed:
            set_error(message, self.code, self.partition, call.version)
        return message


def error_code(
    code: int, *, partition: TopicPartition | None = None, processed: bool = False
) -> Fault:
    """Answer with an error, where this API has its errors: at the top, or for each item.

    ``partition`` limits it to one of several. The request is not carried out, unless
    ``processed``: then it is, and only the answer says that it was not.
    """
    return _ErrorCode(code, partition, processed)


@dataclass(frozen=True, repr=False)
class _Delay(Fault):
    seconds: float

    def transmit(self, call: Call, frame: bytes) -> bytes:
        call.sleep(self.seconds)
        return frame


def delay(seconds: float) -> Fault:
    """Process the request, and hold the answer back; the connection waits meanwhile."""
    return _Delay(seconds)


@dataclass(frozen=True, repr=False)
class _Drop(Fault):
    processed: bool

    def arrive(self, call: Call) -> None:
        if not self.processed:
            raise Silence

    def transmit(self, call: Call, frame: bytes) -> bytes:
        raise Silence


def drop(*, processed: bool = False) -> Fault:
    """Never answer, but answer later requests on the connection.

    The request is not carried out, unless ``processed``.
    """
    return _Drop(processed)


@dataclass(frozen=True, repr=False)
class _CloseBefore(Fault):
    def arrive(self, call: Call) -> None:
        raise HangUp


def close_before() -> Fault:
    """Close the connection; the request is not carried out."""
    return _CloseBefore()


@dataclass(frozen=True, repr=False)
class _CloseAfter(Fault):
    def transmit(self, call: Call, frame: bytes) -> bytes:
        raise HangUp


def close_after() -> Fault:
    """Carry the request out, then close the connection without an answer."""
    return _CloseAfter()


@dataclass(frozen=True, repr=False)
class _CloseMidway(Fault):
    def transmit(self, call: Call, frame: bytes) -> bytes:
        raise HangUp(frame[: len(frame) // 2])


def close_midway() -> Fault:
    """Carry the request out, send half of the answer, and close the connection."""
    return _CloseMidway()


@dataclass(frozen=True, repr=False)
class _WrongCorrelationId(Fault):
    def transmit(self, call: Call, frame: bytes) -> bytes:
        wrong = LENGTH.pack(call.seen.correlation_id ^ _STRANGE_ID)
        return frame[: LENGTH.size] + wrong + frame[_HEAD:]


def wrong_correlation_id() -> Fault:
    """Answer under a number that the client did not ask with."""
    return _WrongCorrelationId()


@dataclass(frozen=True, repr=False)
class _Unsolicited(Fault):
    def transmit(self, call: Call, frame: bytes) -> bytes:
        return frame + frame


def unsolicited() -> Fault:
    """Send the answer twice: the second one is nobody's."""
    return _Unsolicited()


@dataclass(frozen=True, repr=False)
class _FrameLength(Fault):
    length: int

    def transmit(self, call: Call, frame: bytes) -> bytes:
        return LENGTH.pack(self.length) + frame[LENGTH.size :]


def oversized_frame() -> Fault:
    """Claim an answer of 2 GiB, of which only the real bytes come."""
    return _FrameLength(0x7FFFFFFF)


def negative_frame() -> Fault:
    """Claim an answer of -1 bytes."""
    return _FrameLength(-1)


@dataclass(frozen=True, repr=False)
class _Garbage(Fault):
    def transmit(self, call: Call, frame: bytes) -> bytes:
        noise = b"\xff" * max(len(frame) - _HEAD, _NOISE)
        return LENGTH.pack(LENGTH.size + len(noise)) + frame[LENGTH.size : _HEAD] + noise


def garbage() -> Fault:
    """Answer in a sound frame, with the right number, and then bytes that mean nothing."""
    return _Garbage()


@dataclass(frozen=True, repr=False)
class _Throttle(Fault):
    milliseconds: int

    def answer(self, call: Call, message: Message) -> Message:
        set_throttle(message, self.milliseconds)
        return message


def throttle(milliseconds: int) -> Fault:
    """Say in the answer that the client is over its quota, and has to wait (KIP-219)."""
    return _Throttle(milliseconds)


@dataclass(frozen=True, repr=False)
class _MoveLeader(Fault):
    partition: TopicPartition
    node: int

    def arrive(self, call: Call) -> None:
        call.state.move_leader(self.partition, self.node)


def move_leader(partition: TopicPartition, node: int) -> Fault:
    """Make another broker the leader, just before the request is carried out."""
    return _MoveLeader(partition, node)


@dataclass(frozen=True, repr=False)
class _MoveCoordinator(Fault):
    key: str
    node: int

    def arrive(self, call: Call) -> None:
        call.state.move_coordinator(self.key, self.node)


def move_coordinator(key: str, node: int) -> Fault:
    """Move a group or transactional id, just before the request is carried out."""
    return _MoveCoordinator(key, node)


@dataclass(frozen=True, repr=False)
class _Answer(Fault):
    make: Callable[[SeenRequest], Message | None]

    def arrive(self, call: Call) -> None:
        call.replacement = self.make


def answer(make: Callable[[SeenRequest], Message | None]) -> Fault:
    """Send what ``make`` returns (None: nothing) instead of carrying the request out."""
    return _Answer(make)


@dataclass(frozen=True, repr=False)
class _Alter(Fault):
    change: Callable[[SeenRequest, Message], Message]

    def answer(self, call: Call, message: Message) -> Message:
        return self.change(call.seen, message)


def alter(change: Callable[[SeenRequest, Message], Message]) -> Fault:
    """Carry the request out, and send what ``change`` makes of the answer."""
    return _Alter(change)
