from __future__ import annotations

import threading

from kclient.delivery.batch import Ended
from kclient.errors import KafkaError
from kclient.records import decode

from .making import batch


def test_ended_is_never_told_too_soon_whoever_asks() -> None:
    batches = [batch(b"") for _ in range(300)]
    ended, finished = Ended(batches), threading.Event()
    wrong: list[int] = []

    def ask() -> None:
        while not finished.is_set():
            if ended() and not all(each.is_done for each in batches):
                wrong.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for each in batches:
        each.finish(0)
    finished.set()
    for thread in threads:
        thread.join()
    assert ended()
    assert not wrong


def test_the_first_that_has_not_ended() -> None:
    batches = [batch(b"a"), batch(b"b")]
    ended = Ended(batches)
    assert not ended()
    assert ended.first is batches[0]
    batches[0].finish(0)
    assert not ended()
    assert ended.first is batches[1]
    assert Ended([])()


def test_only_the_first_outcome_counts() -> None:
    made = batch(b"a")
    made.finish(5, error=None)
    made.finish(-1, error=KafkaError("late"))
    assert (made.base_offset, made.error) == (5, None)


def test_bytes_are_sealed_once_and_anew_for_another_number() -> None:
    made = batch(b"a")
    made.assign(7, 0, 3)
    first = made.sealed()
    assert made.sealed() is first
    made.assign(7, 1, 0)
    assert made.sealed() != first


def test_converted_and_released_it_still_counts() -> None:
    made = batch(b"a", b"b")
    charged = made.charged
    made.convert(0)
    assert [record.value for record in decode(made.sealed())] == [b"a", b"b"]
    made.finish(3)
    made.release()
    assert (made.count, made.charged, made.data) == (2, charged, None)
