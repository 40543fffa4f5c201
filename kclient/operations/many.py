"""Calls about many items, and what becomes of the items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kclient.cluster.call import Call
from kclient.cluster.target import CONTROLLER, Node, Target
from kclient.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeout,
    PartialFailure,
    UnsupportedVersion,
    broker_error,
)
from kclient.protocol.wire import Message

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Message)
Results = dict[K, T | KafkaError]
"""What became of each item: a value, or an error."""
CallFor = Call[Mapping[K, T | KafkaError]]
"""A request about some items, whose answer tells of each."""

CONTROLLER_CODES = frozenset({41, 89})
"""NOT_CONTROLLER, and THROTTLING_QUOTA_EXCEEDED: try again, what is asked is not at fault."""
LEADER_CODES = frozenset({3, 5, 6, 9, 56, 72, 74, 75, 78, 100})
"""The partition has no leader at the moment, or another one, or one that does not know yet."""
COORDINATOR_CODES = frozenset({14, 15, 16})
"""The coordinator is loading, not there, or another one."""
_SHOWN = 3


@dataclass(frozen=True)
class Many(Generic[K, T]):
    """A call about many items, of which each broker gets those that are its own.

    ``call`` makes the request for some items; its second argument is for how many
    milliseconds the broker may work on it. An item's result is a value or an error.
    """

    what: str
    items: Collection[K]
    call: Callable[[Sequence[K], int], CallFor[K, T]]
    target: Callable[[K], Target] = lambda item: CONTROLLER


def each_broker(what: str, nodes: Collection[int], call: Call[T]) -> Many[int, T]:
    """The same question to every broker; the items are node ids."""

    def ask(items: Sequence[int], timeout_ms: int) -> CallFor[int, T]:
        return Call(call.api, call.build, lambda answer: dict.fromkeys(items, call.read(answer)))

    return Many(what, nodes, ask, Node)


def failed(
    code: int,
    what: str,
    message: str | None = None,
    *,
    again: Container[int] = (),
    **context: Any,
) -> BrokerError:
    """The error for a code, tried again only if it is one of ``again``.

    Kafka's table says for any API at once what is retriable; an answer of the broker that
    decides, such as "no such topic", is final all the same.
    """
    error = broker_error(code, f"{what} ({message})" if message else what, **context)
    error.retriable = code in again
    return error


def outcome(
    code: int, what: str, message: str | None = None, *, again: Container[int] = ()
) -> KafkaError | None:
    """What became of an item that has no value: None, or the error for its code."""
    return failed(code, what, message, again=again) if code else None


def check(code: int, what: str, message: str | None = None, *, again: Container[int] = ()) -> None:
    """Raise the error for a code that is about a whole answer; 0 is none."""
    if code:
        raise failed(code, what, message, again=again)


def reading(kind: type[R], read: Callable[[R], T]) -> Callable[[Message], T]:
    """A reader of answers of one kind, as ``Call`` wants it."""

    def checked(answer: Message) -> T:
        if not isinstance(answer, kind):
            raise TypeError(f"{type(answer).__name__} where {kind.__name__} was due")
        return read(answer)

    return checked


def succeeded(results: Mapping[K, T | KafkaError]) -> list[K]:
    """The items that went well."""
    return [item for item, result in results.items() if not isinstance(result, KafkaError)]


def settle(
    what: str, results: Mapping[K, T | KafkaError], seconds: float, *, alike: bool = False
) -> dict[K, T]:
    """The results of all items.

    Raises PartialFailure if some failed; the error itself if all did, and for a reason that
    is not about an item: no connection, no such API, or that all were asked ``alike``.
    Whatever was still to be tried again after ``seconds`` is a KafkaTimeout.
    """
    good: dict[K, T] = {}
    bad: dict[K, KafkaError] = {}
    for item, result in results.items():
        if isinstance(result, KafkaError):
            bad[item] = _timed_out(what, result, seconds) if result.retriable else result
        else:
            good[item] = result
    if not bad:
        return good
    if not good and (alike or not any(_is_about_an_item(error) for error in bad.values())):
        raise next(iter(bad.values()))
    shown = "; ".join(f"{item}: {error}" for item, error in list(bad.items())[:_SHOWN])
    more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
    raise PartialFailure(
        f"{what}: {len(bad)} of {len(results)} failed (see .failures, and .results for the "
        f"rest): {shown}{more}",
        good,
        bad,
    )


def _is_about_an_item(error: KafkaError) -> bool:
    if isinstance(error, KafkaTimeout):
        return isinstance(error.cause, BrokerError)
    return isinstance(error, BrokerError) and not isinstance(error, UnsupportedVersion)


def _timed_out(what: str, error: KafkaError, seconds: float) -> KafkaTimeout:
    if isinstance(error, KafkaTimeout):
        return error
    timeout = KafkaTimeout(
        f"{what}: not done within {seconds:g} s; the last attempt failed with: {error}",
        cause=error,
    )
    timeout.__cause__ = error
    return timeout
