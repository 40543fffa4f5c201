"""An interrupt anywhere: nothing is lost or doubled, nobody is left waiting, close() works."""

from __future__ import annotations

import concurrent.futures
import contextlib
import linecache
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kclient
from kclient import Producer
from kclient.errors import DeliveryError, ForkedClientError, KafkaError
from kclient.testing import FakeCluster
from kclient.testing.fake import close_after, error_code

from .producing import TOPIC, TP, eventually, quick, values

Start = Callable[..., FakeCluster]
PACKAGE = Path(kclient.__file__).parent
DELIVERY = (str(PACKAGE / "delivery"), str(PACKAGE / "producer.py"))


class Stop(BaseException):
    """As KeyboardInterrupt, but nobody else raises it."""


@contextmanager
def stopping_at(number: int) -> Iterator[list[int]]:
    """Raise Stop before a line of the delivery code runs in this thread, the ``number``-th.

    A real interrupt comes at calls and loops only: this is harder. Lines of ``with`` are left
    out, for Python lets none come between a lock's end of waiting and its block, or its exit;
    so is the first line of a ``finally``.
    """
    lines = [0]

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(DELIVERY):
            return None
        if event == "line" and not is_sheltered(frame):
            lines[0] += 1
            if lines[0] == number:
                raise Stop
        return trace

    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(None)


def is_sheltered(frame: FrameType) -> bool:
    name, number = frame.f_code.co_filename, frame.f_lineno
    before, line = (linecache.getline(name, each).strip() for each in (number - 1, number))
    return line.startswith("with ") or before == "finally:"


def numbered(kind: str, number: int) -> bytes:
    return f"{kind} {number}".encode()


def send(producer: Producer, number: int) -> None:
    producer.send(TOPIC, numbered("send", number), timeout=10)


def submit(producer: Producer, number: int) -> None:
    future = producer.submit(TOPIC, numbered("submit", number))
    assert future.result(10).offset >= 0


def send_many(producer: Producer, number: int) -> None:
    producer.send_many(TOPIC, [numbered("send_many", number)], timeout=10)


def flush(producer: Producer, number: int) -> None:
    producer._intake.append(TOPIC, numbered("flush", number), None, (), None, None, None, False)
    producer.flush(10)


@pytest.mark.parametrize("act", [send, submit, send_many, flush])
@pytest.mark.parametrize("fault", [None, "cut", "refused"])
def test_interrupted_at_every_line(
    act: Callable[[Producer, int], None], fault: str | None, fake_cluster: Start
) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    acknowledged, interrupted = [], []
    with quick(cluster) as producer:
        send(producer, 0)
        number = 0
        while True:
            number += 1 if fault is None else 5
            if fault == "cut":
                cluster.on("Produce", close_after())
            elif fault == "refused":
                cluster.on("Produce", error_code(7, processed=True))
            try:
                with stopping_at(number):
                    act(producer, number)
                acknowledged.append(numbered(act.__name__, number))
            except Stop:
                interrupted.append(number)
            else:
                break
            if number % 10 == 0:
                probe = numbered("probe", number)
                producer.send(TOPIC, probe, timeout=10)  # raises if something is stuck
                acknowledged.append(probe)
            assert number < 5_000
        assert len(interrupted) > 15
        producer.flush(10)
        assert producer.metrics()["batches_waiting"] == 0
        assert producer.metrics()["buffer_bytes"] == 0
    log = values(cluster)
    assert len(log) == len(set(log)), "records are there twice"
    known = set(acknowledged)
    assert [value for value in log if value in known] == acknowledged


def test_close_interrupted_at_every_line(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    number = 0
    while True:
        number += 7
        producer = quick(cluster)
        send(producer, number)
        futures = [producer.submit(TOPIC, b"") for _ in range(3)]
        try:
            with stopping_at(number):
                producer.close(10)
        except Stop:
            with contextlib.suppress(DeliveryError):
                producer.close()
        except DeliveryError:
            pass
        else:
            break
        finally:
            concurrent.futures.wait(futures, 10)
            assert all(future.done() for future in futures)
        assert number < 5_000
    names = [thread.name for thread in threading.enumerate()]
    eventually(lambda: "kclient-sender" not in names_of_threads(), f"no sender is left: {names}")


def names_of_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def test_ctrl_c_in_the_middle_of_send(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"0")
        cluster.pause(1)
        main = threading.get_ident()
        killer = threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT))
        killer.start()
        with pytest.raises(KeyboardInterrupt):
            producer.send(TOPIC, b"1")
        killer.join()
        cluster.resume(1)
        assert producer.send(TOPIC, b"2", timeout=10).offset == 2
    assert values(cluster) == [b"0", b"1", b"2"]


def test_when_the_one_who_carries_is_interrupted_another_goes_on(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        producer.send(TOPIC, b"first")
        cluster.pause(1)
        threads = [
            threading.Thread(target=lambda n=n: producer.send(TOPIC, b"%d" % n), daemon=True)
            for n in range(5)
        ]

        def act() -> None:
            eventually(lambda: producer._carrier._owner, "the main thread carries")
            for thread in threads:
                thread.start()
            eventually(lambda: len(producer._carrier._line) == 5, "the others stand in line")
            signal.pthread_kill(main, signal.SIGINT)

        main = threading.get_ident()
        actor = threading.Thread(target=act)
        actor.start()
        with pytest.raises(KeyboardInterrupt):
            producer.send(TOPIC, b"interrupted")
        actor.join()
        cluster.resume(1)
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
    assert sorted(value or b"" for value in values(cluster)) == sorted(
        [b"first", b"interrupted", *(b"%d" % n for n in range(5))]
    )


def test_an_interrupt_leaves_with_soon(
    fake_cluster: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kclient.producer.HASTE_SECONDS", 0.2)
    cluster = fake_cluster(topics={TOPIC: 1})

    def work() -> None:
        with quick(cluster) as producer:
            producer.send(TOPIC, b"0")
            cluster.pause(1)
            producer.submit(TOPIC, b"1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    cluster.resume(1)


def test_an_iterable_that_raises_leaves_what_was_taken(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:

        def records() -> Iterator[bytes]:
            for number in range(200):
                yield b"%d" % number
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            producer.send_many(TOPIC, records())
        producer.flush()
    taken = values(cluster)
    assert taken == [b"%d" % number for number in range(len(taken))]
    assert taken


# --- the end of the interpreter, and its children ---


def run(code: str, cluster: FakeCluster) -> subprocess.CompletedProcess[str]:
    start = "import sys; from kclient import Producer; address = sys.argv[1]\n"
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", start + code, cluster.bootstrap_servers],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )


def test_interpreter_exit_delivers_what_is_queued(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    done = run(
        "producer = Producer(address, linger_ms=60_000)\n"
        "for n in range(10): producer.submit('orders', b'%d' % n)\n",
        cluster,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert values(cluster) == [b"%d" % n for n in range(10)]


def test_a_producer_that_goes_out_of_scope_delivers_too(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    done = run(
        "def f():\n"
        "    producer = Producer(address, linger_ms=300)\n"
        "    for n in range(10): producer.submit('orders', b'%d' % n)\n"
        "f()\n",
        cluster,
    )
    assert done.returncode == 0
    assert values(cluster) == [b"%d" % n for n in range(10)]


def test_interpreter_exit_counts_what_it_could_not_deliver(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    cluster.on("Produce", error_code(29), times=None)
    done = run(
        "producer = Producer(address, linger_ms=60_000)\n"
        "for n in range(10): producer.submit('orders', b'%d' % n)\n",
        cluster,
    )
    assert done.returncode == 0
    assert "RuntimeWarning: at exit: 10 records were not delivered" in done.stderr


def test_a_producer_that_nobody_closed_says_so(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    done = run(
        "import gc, threading\n"
        "producer = Producer(address)\n"
        "producer.submit('orders', b'').result(10)\n"
        "import time; time.sleep(0.1)\n"
        "del producer; gc.collect(); time.sleep(0.1)\n"
        "print([thread.name for thread in threading.enumerate()])\n",
        cluster,
    )
    assert "ResourceWarning: <Producer" in done.stderr
    assert "unclosed <socket" not in done.stderr
    assert done.stdout == "['MainThread']\n"


def test_a_forked_child_leaves_the_parents_producer_alone(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    done = run(
        "import os\n"
        "from kclient.errors import ForkedClientError\n"
        "producer = Producer(address, linger_ms=60_000)\n"
        "producer.send('orders', b'0')\n"
        "future = producer.submit('orders', b'1')\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    for call in (lambda: producer.send('orders', b''), producer.flush):\n"
        "        try: call()\n"
        "        except ForkedClientError: print('forked', flush=True)\n"
        "    sys.exit()\n"
        "os.waitpid(pid, 0)\n"
        "producer.send('orders', b'2')\n"
        "producer.close()\n"
        "print(future.result(0).offset)\n",
        cluster,
    )
    assert done.stdout == "forked\nforked\n1\n"
    assert values(cluster) == [b"0", b"1", b"2"]
    assert issubclass(ForkedClientError, KafkaError)


# --- callbacks ---


def test_callbacks_may_use_the_producer(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        follow_ups: list[Any] = []

        def follow_up(future: Any) -> None:
            follow_ups.append(producer.send(TOPIC, b"second", timeout=10))
            if len(follow_ups) < 3:
                producer.submit(TOPIC, b"third").add_done_callback(follow_up)

        producer.submit(TOPIC, b"first").add_done_callback(follow_up)
        eventually(lambda: len(follow_ups) == 3, "callbacks have run")
        producer.flush()
    assert len(cluster.records(TP)) == 6


def test_callbacks_run_in_the_order_of_the_records(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        told: list[int] = []
        for number in range(100):
            future = producer.submit(TOPIC, b"%d" % number)
            future.add_done_callback(lambda done: told.append(done.result(0).offset))
        producer.flush()
    assert told == list(range(100))


def test_a_callback_that_waits_for_another_thread(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    with quick(cluster) as producer:
        landed: list[int] = []

        def wait(future: Any) -> None:
            other = producer.submit(TOPIC, b"second")
            producer.flush(10)
            landed.append(other.result(0).offset)

        producer.submit(TOPIC, b"first").add_done_callback(wait)
        eventually(lambda: landed, "the callback has run")
    assert landed == [1]


def test_a_logging_handler_that_sends_by_the_same_producer(fake_cluster: Start) -> None:
    import logging

    cluster = fake_cluster(topics={TOPIC: 1, "log": 1})
    with quick(cluster) as producer:

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                producer.submit("log", self.format(record).encode())

        producer.send("log", b"")
        handler = Handler(level=logging.INFO)
        logger = logging.getLogger("kclient")
        logger.addHandler(handler)
        level = logger.level
        logger.setLevel(logging.INFO)
        try:
            cluster.on("Produce", error_code(45), matching=lambda seen: b"once" in raw(seen))
            producer.send(TOPIC, b"once", timeout=10)
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
        producer.flush(10)
    assert any(
        b"gap" in (record.value or b"") for record in cluster.records(TP._replace(topic="log"))
    )


def raw(seen: Any) -> bytes:
    return b"".join(
        bytes(partition.records)
        for topic in seen.message.topic_data
        for partition in topic.partition_data
    )


def test_the_death_of_the_sender_thread_reaches_the_caller(fake_cluster: Start) -> None:
    cluster = fake_cluster(topics={TOPIC: 1})
    producer = quick(cluster)
    producer.send(TOPIC, b"")

    def broken() -> float:
        raise ZeroDivisionError("a bug")

    producer._engine._send = broken  # type: ignore[method-assign]
    future = producer.submit(TOPIC, b"")
    with pytest.raises(KafkaError, match="sender thread died.*a bug"):
        future.result(10)
    with pytest.raises(KafkaError, match="sender thread died"):
        producer.send(TOPIC, b"")
    del producer._engine._send
    producer.close(1)
