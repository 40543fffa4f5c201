"""From a declaration and a version to straight-line Python: one function each way.

Nested structures become nested loops in one function, because calls cost more than the
work they wrap. Neighbouring fixed-size fields share one `struct` call, and so do the
lengths that follow them: a compact length below 128 is one byte and is read with its
neighbours, longer ones continue in `long_uvarint`. Sources are kept for tracebacks.

The generators live in `encoding.py` and `decoding.py`; here are the cache, the two entry
points, and the way from a Python error inside generated code to a `ProtocolError`.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kclient.errors import ProtocolError, UnsupportedVersion
from kclient.protocol import decoding, encoding

if TYPE_CHECKING:
    from kclient.protocol.wire import Buffer, M, Message

# What generated code raises on bad values and bad bytes, beside ProtocolError itself.
_FAULTS = (
    struct.error,
    IndexError,
    AttributeError,
    TypeError,
    ValueError,  # includes UnicodeError
    OverflowError,
)


def encode_parts(message: Message, version: int) -> list[Buffer]:
    """The body of ``message`` in ``version``, as the pieces to send in order."""
    encode = _ENCODERS.get((type(message), version)) or _build_encoder(type(message), version)
    try:
        return encode(message)
    except _FAULTS as exc:
        where = encoding.first_misfit(message, version) or str(exc)
        raise ProtocolError(f"cannot encode {type(message).__name__} v{version}: {where}") from exc


def decode_at(cls: type[M], data: Buffer, pos: int, version: int) -> tuple[M, int]:
    """The message that starts at byte ``pos`` of ``data``, and the position behind it."""
    decode, wants_view = _DECODERS.get((cls, version)) or _build_decoder(cls, version)
    if wants_view:
        data = memoryview(data)
    elif type(data) is not bytes:
        data = bytes(data)
    try:
        found: tuple[M, int] = decode(data, pos, len(data))
    except _FAULTS as exc:
        raise _bad_input(cls, version, len(data), exc) from exc
    return found


def trailing_bytes(cls: type[Message], version: int, count: int) -> ProtocolError:
    """The error for input that goes on behind a whole message."""
    return ProtocolError(f"{cls.__name__} v{version}: {count} bytes left behind the message")


_ENCODERS: dict[tuple[type, int], Callable[[Any], list[Buffer]]] = {}
_DECODERS: dict[tuple[type, int], tuple[Callable[..., Any], bool]] = {}


def _build_encoder(cls: type[Message], version: int) -> Callable[[Any], list[Buffer]]:
    _check_version(cls, version)
    built = _compile(cls, version, "encode", *encoding.source(cls, version))
    _ENCODERS[cls, version] = built
    return built


def _build_decoder(cls: type[Message], version: int) -> tuple[Callable[..., Any], bool]:
    _check_version(cls, version)
    source, names = decoding.source(cls, version)
    function = _compile(cls, version, "decode", source, names)
    built = function, decoding.wants_view(cls, version)
    _DECODERS[cls, version] = built
    return built


def _check_version(cls: type[Message], version: int) -> None:
    lowest, highest = cls.VERSIONS
    if not lowest <= version <= highest:
        raise UnsupportedVersion(
            f"{cls.__name__} v{version}: kclient speaks v{lowest} to v{highest}"
        )


def _compile(
    cls: type[Message], version: int, name: str, source: str, names: dict[str, Any]
) -> Callable[..., Any]:
    filename = f"<kclient {cls.__name__} v{version} {name}>"
    exec(compile(source, filename, "exec"), names)  # noqa: S102 - source is ours
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    function: Callable[..., Any] = names[name]
    return function


def _bad_input(cls: type[Message], version: int, size: int, exc: BaseException) -> ProtocolError:
    """Say where in the input decoding failed: the generated function's own ``pos``."""
    trace = exc.__traceback__
    while (
        trace is not None
        and trace.tb_next is not None
        and trace.tb_frame.f_code.co_name != "decode"
    ):
        trace = trace.tb_next
    pos = trace.tb_frame.f_locals.get("pos") if trace is not None else None
    what = "input ends early" if isinstance(exc, struct.error | IndexError) else str(exc)
    return ProtocolError(f"{cls.__name__} v{version}: {what} (byte {pos} of {size})")
