"""Fetch sessions against a model of the broker's side (KIP-227)."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kclient.fetch.session import Ask, FetchSession, Want
from kclient.types import TopicPartition

A, B, C = (TopicPartition("t", number) for number in range(3))


def want(offset: int = 0, **more: int) -> Want:
    return Want(offset, 100, 0, 0, **more)  # type: ignore[arg-type]


def test_first_request_names_everything() -> None:
    session = FetchSession()
    session.put(A, want())
    session.put(B, want(5))
    assert session.ask(has_sessions=True) == Ask(0, 0, {A: want(), B: want(5)}, {})


def test_later_ones_name_changes() -> None:
    session = FetchSession()
    session.put(A, want())
    session.put(B, want())
    session.ask(has_sessions=True)
    session.answered(77)
    assert session.ask(has_sessions=True) == Ask(77, 1, {}, {})
    session.answered(77)
    session.put(B, want(9))
    session.drop([A, C])
    assert session.ask(has_sessions=True) == Ask(77, 2, {B: want(9)}, {A: want()})


def test_without_sessions_all_is_named_always() -> None:
    session = FetchSession()
    session.put(A, want())
    for _ in range(2):
        assert session.ask(has_sessions=False) == Ask(0, -1, {A: want()}, {})


def test_broker_without_room_gives_no_session() -> None:
    session = FetchSession()
    session.put(A, want())
    session.ask(has_sessions=True)
    session.answered(0)
    assert session.ask(has_sessions=True) == Ask(0, 0, {A: want()}, {})


def test_restart_keeps_the_id_so_that_the_broker_frees_it() -> None:
    session = FetchSession()
    session.put(A, want())
    session.ask(has_sessions=True)
    session.answered(77)
    session.restart()
    assert session.ask(has_sessions=True) == Ask(77, 0, {A: want()}, {})
    session.restart(is_gone=True)
    assert session.ask(has_sessions=True).session_id == 0


def test_restart_under_a_request_loses_no_change() -> None:
    """The answer to a request from before the restart must not make it forgotten."""
    session = FetchSession()
    session.put(A, want())
    session.ask(has_sessions=True)
    session.put(A, want(50))
    session.restart()
    session.answered(77)
    assert session.ask(has_sessions=True).wants == {A: want(50)}


def test_topic_made_anew_starts_a_new_session() -> None:
    session = FetchSession()
    session.put(A, Want(0, 100, 0, 0, UUID(int=1)))
    session.ask(has_sessions=True)
    session.answered(77)
    session.put(A, Want(0, 100, 0, 0, UUID(int=2)))
    assert session.ask(has_sessions=True).session_epoch == 0


def test_epochs_wrap_around() -> None:
    session = FetchSession()
    session.put(A, want())
    session.ask(has_sessions=True)
    session.answered(77)
    session._epoch = (1 << 31) - 1
    session.answered(77)
    assert session.ask(has_sessions=True).session_epoch == 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from([A, B, C]), st.integers(0, 3)),
        st.tuples(st.just("drop"), st.sampled_from([A, B, C]), st.just(0)),
        st.tuples(st.just("restart"), st.just(A), st.integers(0, 1)),
        st.tuples(st.just("send"), st.just(A), st.integers(0, 3)),
    ),
    max_size=40,
)


@given(steps=STEPS)
def test_broker_knows_what_is_wanted_after_each_request(
    steps: list[tuple[str, TopicPartition, int]],
) -> None:
    """Whatever happens, the broker's picture after a request is what was wanted when it left."""
    session, picture, sessions = FetchSession(), dict[TopicPartition, Want](), 0
    known_id, known_epoch = 0, 0
    for what, tp, number in steps:
        if what == "put":
            session.put(tp, want(number))
        elif what == "drop":
            session.drop([tp])
        elif what == "restart":
            session.restart(is_gone=bool(number))
        else:
            ask = session.ask(has_sessions=True)
            if ask.session_epoch == 0:
                picture = dict(ask.wants)
                sessions += 1
                known_id, known_epoch = (0 if number == 0 else sessions), 1
            elif (ask.session_id, ask.session_epoch) != (known_id, known_epoch):
                session.restart()  # INVALID_FETCH_SESSION_EPOCH
                continue
            else:
                for gone in ask.forget:
                    picture.pop(gone, None)
                picture.update(ask.wants)
                known_epoch += 1
            session.answered(known_id)
            assert picture == session.wants
            assert {tp: session.sent[tp] for tp in picture} == picture
