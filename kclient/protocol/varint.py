"""Unsigned variable-length integers: seven bits a byte, lowest first, five bytes at most."""

from __future__ import annotations

ONE_BYTE = [bytes([value]) for value in range(128)]
"""The encodings of 0 to 127, so that the common case is a table look-up."""


def uvarint(value: int) -> bytes:
    """``value`` (0 to 2^32-1) as it stands on the wire."""
    if value < 128:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def long_uvarint(data: bytes | memoryview, pos: int, first: int) -> tuple[int, int]:
    """The value whose ``first`` byte (over 127) was read from before ``pos``; and what follows.

    Raises ValueError if it is over 32 bits.
    """
    value = first & 127
    for shift in (7, 14, 21, 28):
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if value > 0xFFFFFFFF:
                break
            return value, pos
    raise ValueError("a variable-length integer is over 32 bits")
