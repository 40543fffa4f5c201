"""``SendFuture`` beside an ordinary Future: every method, ``wait`` and ``as_completed``."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from concurrent.futures import Future, InvalidStateError

import pytest

from kclient.delivery.batch import Batch
from kclient.delivery.future import SendFuture
from kclient.errors import KafkaError, KafkaTimeout
from kclient.types import RecordMetadata

from .making import TP, batch

LANDED = RecordMetadata("orders", 0, 11, 5)


def futures_of(made: Batch) -> list[SendFuture]:
    return [SendFuture(made, index, 5) for index in range(made.count)]


def end(made: Batch, error: KafkaError | None = None) -> None:
    """End a batch as the engine does."""
    made.finish(10, error=error)
    while made.interested:
        made.interested.pop().tell()


def test_before_and_after() -> None:
    made = batch(b"a", b"b")
    _, future = futures_of(made)
    assert isinstance(future, Future)
    assert (future.done(), future.running(), future.cancelled()) == (False, True, False)
    with pytest.raises(TimeoutError):
        future.result(0)
    with pytest.raises(TimeoutError):
        future.exception(0.001)
    assert "pending" in repr(future)
    end(made)
    assert (future.done(), future.running(), future.cancelled()) == (True, False, False)
    assert future.result(0) == future.result() == LANDED
    assert future.exception() is None
    assert "finished" in repr(future)


def test_a_record_cannot_be_called_back_nor_its_outcome_set() -> None:
    (future,) = futures_of(batch(b"a"))
    assert future.cancel() is False
    for refused in (
        future.set_running_or_notify_cancel,
        lambda: future.set_result(LANDED),
        lambda: future.set_exception(KafkaError("x")),
    ):
        with pytest.raises(InvalidStateError):
            refused()


def test_an_error_is_each_futures_own() -> None:
    made = batch(b"a", b"b")
    one, two = futures_of(made)
    end(made, KafkaTimeout("too late", topic="orders"))
    errors = []
    for future in (one, one, two):
        with pytest.raises(KafkaTimeout, match="too late") as caught:
            future.result()
        errors.append(caught.value)
    assert errors[0] is errors[1]
    assert errors[0] is not errors[2]
    assert errors[0].topic == "orders"  # type: ignore[attr-defined]
    assert made.observed == 2


def test_repr_does_not_count_as_looking() -> None:
    made = batch(b"a")
    (future,) = futures_of(made)
    end(made, KafkaError("x"))
    repr(future)
    assert future.done()
    assert made.observed == 0


def test_result_waits() -> None:
    made = batch(b"a", b"b")
    _, future = futures_of(made)
    timer = threading.Timer(0.05, end, (made,))
    timer.start()
    assert future.result(10) == LANDED
    timer.join()


def test_callbacks_run_once_in_order_and_their_errors_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = batch(b"a", b"b")
    _, future = futures_of(made)
    calls: list[str] = []

    def fail(done: Future[RecordMetadata]) -> None:
        calls.append("fail")
        raise ZeroDivisionError

    future.add_done_callback(lambda done: calls.append(f"first {done.result().offset}"))
    future.add_done_callback(fail)
    future.add_done_callback(lambda done: calls.append("last"))
    assert calls == []
    end(made)
    assert calls == ["first 11", "fail", "last"]
    assert "ZeroDivisionError" in caplog.text
    future.tell()
    assert len(calls) == 3
    future.add_done_callback(lambda done: calls.append("late"))
    assert calls[-1] == "late"


@pytest.mark.parametrize(
    "return_when", [concurrent.futures.FIRST_COMPLETED, concurrent.futures.ALL_COMPLETED]
)
def test_wait(return_when: str) -> None:
    one, two = batch(b"a", b"b"), batch(b"c")
    ordinary: Future[RecordMetadata] = Future()
    every: list[Future[RecordMetadata]] = [*futures_of(one), *futures_of(two), ordinary]

    def finish() -> None:
        end(one)
        end(two)
        ordinary.set_result(LANDED)

    timer = threading.Timer(0.05, finish)
    timer.start()
    done, _ = concurrent.futures.wait(every, 10, return_when)
    assert done
    timer.join()
    done, not_done = concurrent.futures.wait(every, 0)
    assert (len(done), not_done) == (4, set())


def test_wait_for_the_first_exception() -> None:
    one, two = batch(b"a"), batch(b"b")
    every = [*futures_of(one), *futures_of(two)]
    timer = threading.Timer(0.05, end, (two, KafkaError("x")))
    timer.start()
    done, not_done = concurrent.futures.wait(
        every, 10, return_when=concurrent.futures.FIRST_EXCEPTION
    )
    timer.join()
    assert (done, not_done) == ({every[1]}, {every[0]})


def test_wait_gives_up() -> None:
    futures = futures_of(batch(b"a"))
    assert concurrent.futures.wait(futures, 0.01) == (set(), set(futures))
    with pytest.raises(TimeoutError):
        list(concurrent.futures.as_completed(futures, 0.01))


def test_as_completed() -> None:
    one, two = batch(b"a"), batch(b"b")
    first, second = (*futures_of(one), *futures_of(two))
    found = concurrent.futures.as_completed([second, first], 10)
    end(one)
    assert next(found) is first
    threading.Timer(0.05, end, (two,)).start()
    assert list(found) == [second]


def test_in_asyncio() -> None:
    made = batch(b"a", b"b")
    _, future = futures_of(made)

    async def main() -> RecordMetadata:
        threading.Timer(0.05, end, (made,)).start()
        return await asyncio.wait_for(asyncio.wrap_future(future), 10)

    assert asyncio.run(main()) == LANDED


def test_in_a_split_batch_each_record_has_its_own_outcome() -> None:
    whole = batch(b"a", b"b", b"c", b"d")
    futures = futures_of(whole)
    told: list[Future[RecordMetadata]] = []
    futures[3].add_done_callback(told.append)
    left, right = whole.split()
    left.finish(100)
    assert not any(future.done() for future in futures)
    right.finish(-1, error=KafkaError("too large"))
    assert whole.is_done
    assert [future.exception(0) is None for future in futures] == [True, True, False, False]
    assert futures[1].result(0) == RecordMetadata(*TP, 101, 5)
    assert whole.failed() == 2
    assert list(whole.interested) == [futures[3]]
