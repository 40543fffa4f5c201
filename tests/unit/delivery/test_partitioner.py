from __future__ import annotations

import pickle
import random
from collections import Counter
from collections.abc import Sequence

import pytest

from kclient.delivery import partitioner
from kclient.delivery.partitioner import KeyHash, StickyChoice, choose_partitioner
from kclient.errors import ConfigError


class Counted:
    """A hash that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: Counter[bytes] = Counter()

    def __call__(self, key: bytes, count: int) -> int:
        self.asked[key] += 1
        return len(key) % count


def test_a_key_is_hashed_once_while_the_count_stays() -> None:
    place = Counted()
    chooser = KeyHash(place)
    assert [chooser.partition(b"abcde", 4, ()) for _ in range(3)] == [1, 1, 1]
    assert place.asked[b"abcde"] == 1
    assert chooser.partition(b"abcde", 3, ()) == 2
    assert chooser.partition(b"abcde", 4, ()) == 1
    assert place.asked[b"abcde"] == 3


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioner, "CACHED_KEYS", 10)
    place = Counted()
    chooser = KeyHash(place)
    for number in range(11):
        chooser.partition(b"%d" % number, 7, ())
    chooser.partition(b"10", 7, ())
    chooser.partition(b"0", 7, ())
    assert (place.asked[b"10"], place.asked[b"0"]) == (1, 2)


def test_long_keys_are_not_kept() -> None:
    place = Counted()
    chooser = KeyHash(place)
    long = bytes(partitioner.LONGEST_CACHED_KEY + 1)
    for count in (7, 7, 8):
        assert chooser.partition(long, count, ()) == len(long) % count
    assert place.asked[long] == 3


def test_a_keyed_record_waits_for_its_partition_even_if_unavailable() -> None:
    chooser = choose_partitioner("murmur2")("orders")
    home = chooser.partition(b"key", 5, range(5))
    assert chooser.partition(b"key", 5, [p for p in range(5) if p != home]) == home


@pytest.mark.parametrize(
    ("name", "missing", "empty"),
    [
        ("murmur2", None, (0x106E08D9 & 0x7FFFFFFF) % 7),
        ("consistent", 0, 0),  # the CRC of nothing is 0
        ("consistent_random", None, None),
        ("sticky", None, None),
    ],
)
def test_records_without_a_key(name: str, missing: int | None, empty: int | None) -> None:
    chooser = choose_partitioner(name)("orders")
    assert chooser.partition(None, 7, range(7)) == missing
    assert chooser.partition(b"", 7, range(7)) == empty


def test_round_robin_visits_the_available_in_turn() -> None:
    chooser = choose_partitioner("round_robin")("orders")
    assert [chooser.partition(b"same", 5, [0, 2, 4]) for _ in range(6)] == [0, 2, 4, 0, 2, 4]
    assert [chooser.partition(None, 3, []) for _ in range(3)] == [0, 1, 2]


def test_random_spreads_over_the_available() -> None:
    chooser = choose_partitioner("random")("orders")
    assert {chooser.partition(b"same", 9, [1, 5]) for _ in range(200)} == {1, 5}
    assert {chooser.partition(b"same", 2, []) for _ in range(200)} == {0, 1}


def test_a_function_of_the_user_decides() -> None:
    seen = []

    def by_region(
        topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]
    ) -> int:
        seen.append((topic, key, list(partitions), list(available)))
        return partitions[-1]

    chooser = choose_partitioner(by_region)("orders")
    assert chooser.partition(b"eu", 3, [0, 1]) == 2
    assert seen == [("orders", b"eu", [0, 1, 2], [0, 1])]


@pytest.mark.parametrize("wrong", [3, -1, None, "1", True, 1.0])
def test_a_function_that_answers_no_partition_is_named(wrong: object) -> None:
    def broken(*_: object) -> int:
        return wrong  # type: ignore[return-value]

    with pytest.raises(ConfigError, match=r"broken answered .* for topic 'orders'.* 0 to 2"):
        choose_partitioner(broken)("orders").partition(b"k", 3, [])


def test_what_a_function_raises_reaches_the_caller() -> None:
    def failing(*_: object) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        choose_partitioner(failing)("orders").partition(b"k", 3, [])


def test_an_unknown_name_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="did you mean 'consistent_random'") as caught:
        choose_partitioner("consistent_randon")
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(ConfigError, match="there are murmur2, "):
        choose_partitioner(7)  # type: ignore[arg-type]


def test_sticky_stays_until_a_batch_is_full() -> None:
    sticky = StickyChoice(100)
    assert sticky.current == -1
    assert sticky.next(5) == sticky.current
    assert [sticky.note(40), sticky.note(40), sticky.note(40)] == [False, False, True]
    sticky.next(5)
    assert sticky.note(99) is False


def test_sticky_lets_an_open_batch_grow_to_twice_its_size() -> None:
    sticky = StickyChoice(100)
    sticky.next(5)
    assert [sticky.note(90, batch_ended=False) for _ in range(3)] == [False, False, True]


def test_sticky_avoids_what_is_not_available() -> None:
    sticky = StickyChoice(1)
    assert {sticky.next(6, [1, 4]) for _ in range(100)} == {1, 4}
    assert {sticky.next(6, [1, 4], {1: 3, 4: 3, 0: 0}) for _ in range(100)} == {1, 4}
    assert {sticky.next(2, []) for _ in range(100)} == {0, 1}


def test_sticky_prefers_short_queues_in_proportion() -> None:
    sticky = StickyChoice(1, random.Random(794))
    chosen = Counter(sticky.next(3, range(3), {0: 0, 1: 5, 2: 9}) for _ in range(15_000))
    # Weights are the longest queue plus one, less the own: 10, 5 and 1.
    assert chosen[0] / 15_000 == pytest.approx(10 / 16, abs=0.02)
    assert chosen[1] / 15_000 == pytest.approx(5 / 16, abs=0.02)
    assert chosen[2] / 15_000 == pytest.approx(1 / 16, abs=0.02)


def test_sticky_with_equal_queues_is_uniform() -> None:
    sticky = StickyChoice(1, random.Random(480))
    chosen = Counter(sticky.next(4, range(4), dict.fromkeys(range(4), 8)) for _ in range(8_000))
    assert all(count / 8_000 == pytest.approx(1 / 4, abs=0.03) for count in chosen.values())
    assert len(chosen) == 4
