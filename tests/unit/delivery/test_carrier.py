"""Threads that take turns at an engine: each gets what it waits for, and nobody is forgotten."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from kclient.deadline import Deadline
from kclient.delivery.carrier import Carrier
from kclient.errors import ClientClosedError, KafkaError, KafkaTimeout


class Turns:
    """An engine whose every step makes a count go up; it waits when told to be slow."""

    def __init__(self) -> None:
        self.is_busy = self.is_telling = False
        self.count = 0
        self.inside = 0
        self.threads: set[int] = set()
        self.woken = threading.Event()
        self.is_slow = False
        self.error: BaseException | None = None
        self.on_step: Callable[[], None] = lambda: None

    def step(self, until: float) -> None:
        self.inside += 1
        assert self.inside == 1, "two threads carry at once"
        self.is_busy = True
        try:
            self.threads.add(threading.get_ident())
            if self.error is not None:
                raise self.error
            if self.is_slow:
                self.woken.wait(min(0.01, max(0.0, until - time.monotonic())))
                self.woken.clear()
            self.count += 1
        finally:
            self.inside -= 1
            self.is_busy = False
        self.is_telling = True
        self.on_step()
        self.is_telling = False

    def wake(self) -> None:
        self.woken.set()


def test_a_lone_caller_carries_by_itself() -> None:
    engine = Turns()
    Carrier(engine).until(lambda: engine.count == 5, Deadline(10), "counting")
    assert engine.count == 5
    assert engine.threads == {threading.get_ident()}


def test_what_is_done_already_needs_no_step() -> None:
    engine = Turns()
    Carrier(engine).until(lambda: True, Deadline(10), "nothing")
    assert engine.count == 0


def test_many_threads_each_get_what_they_wait_for() -> None:
    engine = Turns()
    engine.is_slow = True
    carrier = Carrier(engine)
    seen: list[int] = []

    def wait_for(number: int) -> None:
        for turn in range(5):
            await_count(engine.count + number + turn)
        seen.append(number)

    def await_count(goal: int) -> None:
        carrier.until(lambda: engine.count >= goal, Deadline(30), "counting")
        assert engine.count >= goal

    threads = [threading.Thread(target=wait_for, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert sorted(seen) == list(range(12))
    assert (carrier._owner, carrier._line) == (None, {})


def test_the_place_is_handed_on_when_the_owner_is_done() -> None:
    engine = Turns()
    engine.is_slow = True
    carrier = Carrier(engine)
    goals = {1: threading.Event(), 2: threading.Event()}

    def wait_for(number: int) -> None:
        carrier.until(goals[number].is_set, Deadline(30), "waiting")

    threads = [threading.Thread(target=wait_for, args=(number,)) for number in goals]
    for thread in threads:
        thread.start()
    while not carrier._line:
        time.sleep(0.001)
    owner = carrier._owner
    assert owner is not None
    first = 1 if owner.thread == threads[0].ident else 2
    goals[first].set()
    threads[first - 1].join(10)
    before = engine.count
    while engine.count < before + 3:  # the other one carries now
        time.sleep(0.001)
    goals[3 - first].set()
    threads[2 - first].join(10)
    assert not any(thread.is_alive() for thread in threads)


def test_a_caller_that_has_no_time_left() -> None:
    engine = Turns()
    engine.is_slow = True
    carrier = Carrier(engine)
    with pytest.raises(KafkaTimeout, match="counting sheep: not done within 0.05 s"):
        carrier.until(lambda: False, Deadline(0.05), "counting sheep")
    other = threading.Thread(
        target=lambda: carrier.until(lambda: engine.count > 1000, Deadline(30), "")
    )
    other.start()
    while carrier._owner is None:
        time.sleep(0.001)
    with pytest.raises(KafkaTimeout, match="waiting"):
        carrier.until(lambda: False, Deadline(0.05), "waiting")
    engine.is_slow = False
    other.join(30)
    assert not other.is_alive()
    assert not carrier._line


def test_an_error_of_a_step_leaves_the_place_free() -> None:
    engine = Turns()
    carrier = Carrier(engine)
    engine.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        carrier.until(lambda: False, Deadline(10), "")
    engine.error = None
    carrier.until(lambda: engine.count == 2, Deadline(10), "")


def test_a_forgotten_thread_looks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kclient.delivery.carrier._LOOK_SECONDS", 0.02)
    engine = Turns()
    engine.is_slow = True
    carrier = Carrier(engine)
    is_over = threading.Event()
    owner = threading.Thread(target=lambda: carrier.until(is_over.is_set, Deadline(30), ""))
    owner.start()
    while carrier._owner is None:
        time.sleep(0.001)
    waiting = threading.Thread(
        target=lambda: carrier.until(
            lambda: is_over.is_set() and engine.count > 5, Deadline(30), ""
        )
    )
    waiting.start()
    while not carrier._line:
        time.sleep(0.001)
    monkeypatch.setattr(carrier, "_call_next", lambda leaving: None)  # as if interrupted
    is_over.set()
    owner.join(10)
    waiting.join(10)
    assert not waiting.is_alive()


def test_a_single_step_is_made_only_if_nobody_carries() -> None:
    engine = Turns()
    carrier = Carrier(engine)
    carrier.step()
    assert engine.count == 1
    engine.is_slow = True
    is_over = threading.Event()
    owner = threading.Thread(target=lambda: carrier.until(is_over.is_set, Deadline(30), ""))
    owner.start()
    while carrier._owner is None:
        time.sleep(0.001)
    engine.threads.clear()
    carrier.step()
    assert threading.get_ident() not in engine.threads
    is_over.set()
    owner.join(10)
    assert carrier._owner is None


def test_callbacks_may_wait_too() -> None:
    engine = Turns()
    carrier = Carrier(engine)
    nested: list[int] = []

    def callback() -> None:
        if not nested:
            nested.append(engine.count)
            carrier.until(lambda: engine.count >= 4, Deadline(10), "nested")
            nested.append(engine.count)

    engine.on_step = callback
    carrier.until(lambda: engine.count >= 2, Deadline(10), "outer")
    assert nested == [1, 4]


def test_the_middle_of_a_step_is_no_place_to_wait() -> None:
    engine = Turns()
    carrier = Carrier(engine)

    def meddle() -> None:
        engine.is_busy, engine.is_telling = True, False
        try:
            carrier.until(lambda: False, Deadline(10), "logging")
        finally:
            engine.is_busy = False

    engine.on_step = meddle
    with pytest.raises(KafkaError, match="logging.*logging handler"):
        carrier.until(lambda: False, Deadline(10), "outer")


def test_after_it_is_retired_nobody_carries() -> None:
    engine = Turns()
    engine.is_slow = True
    carrier = Carrier(engine)
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            carrier.until(lambda: False, Deadline(30), "waiting")
        except ClientClosedError as error:
            errors.append(error)

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(carrier._line) < 2:
        time.sleep(0.001)
    carrier.retire(Deadline(10))
    for thread in threads:
        thread.join(10)
    assert len(errors) == 3
    count = engine.count
    with pytest.raises(ClientClosedError):
        carrier.until(lambda: False, Deadline(10), "")
    with pytest.raises(ClientClosedError):
        carrier.step()
    carrier.retire(Deadline(10))
    assert engine.count == count
