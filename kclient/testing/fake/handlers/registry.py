"""From an API to the function that answers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec, TypeVar

from kclient.protocol import RESPONSES, Message
from kclient.testing.fake.call import Call
from kclient.testing.fake.codes import Refusal

M = TypeVar("M", bound=Message)
P = ParamSpec("P")
Handler = Callable[[Call, M], "Message | None"]


class _Entry(NamedTuple):
    handler: Handler[Any]
    itemised: bool


HANDLERS: dict[int, _Entry] = {}
"""By API key; filled by the modules of this package."""


def handles(request: type[M], *, itemised: bool = False) -> Callable[[Handler[M]], Handler[M]]:
    """Make a function the handler of ``request``; it returns the answer, None for none.

    An ``itemised`` handler finds a place for errors by itself; for the others a Refusal
    becomes the error code at the top of the answer.
    """
    key = request.API_KEY
    assert key is not None

    def register(handler: Handler[M]) -> Handler[M]:
        HANDLERS[key] = _Entry(handler, itemised)
        return handler

    return register


def handle(call: Call) -> Message | None:
    """Answer a request, under the cluster's lock."""
    key = call.seen.message.API_KEY
    assert key is not None
    entry = HANDLERS[key]
    call.state.tick()
    try:
        if not entry.itemised:
            call.check()
        return entry.handler(call, call.seen.message)
    except Refusal as refusal:
        answer: Any = RESPONSES[key]
        made: Message = answer(error_code=refusal.code)
        return made


def code_of(action: Callable[P, object], *args: P.args, **options: P.kwargs) -> int:
    """Do something, and tell the error code that it was refused with; 0 if it was not."""
    try:
        action(*args, **options)
    except Refusal as refusal:
        return refusal.code
    return 0
