# cython: language_level=3, embedsignature=True
"""Record batch v2 in C: the fast twin of ``pure``, which is the reference for what it does.

How memory stays in bounds. All of it is plain pointers, so this page is the proof:

- Reading goes through a ``Cursor``. Only ``get_byte``, ``get_varint`` and ``get_slice`` move
  its ``pos``, each after comparing with ``end``; so ``pos <= end`` always holds and nothing
  at or behind ``end`` is read. A slice they return lies before ``end``. After a fault they
  return zeros and nulls, which are safe to go on with; the caller looks at ``fault`` once a
  record, before it believes anything.
- A record is read through a cursor of its own that ends where the record does, so it cannot
  reach into the next one. Bytes are fetched once into a local, judged, and then used: input
  that another thread changes meanwhile gives nonsense, never a wild pointer.
- What the input claims is never allocated: lists grow as records are found, and Arrow's
  buffers as bytes are copied. A record takes 7 bytes or more, so counts are bounded too.
- Writing first sums up the exact size of a record, makes room for it, then writes. Sizes are
  64-bit sums of parts that are each below 2^31, so they do not overflow.
- No Python code runs between taking an object's address and the last use of it: conversions
  that may call into Python happen before, and their results are held.
- Without the GIL only memory is touched that an export or a reference keeps in place.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from crc32c import crc32c

from kclient.errors import SerializationError
from kclient.records.arrow_rows import header_without_key
from kclient.records.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    bad_timestamp,
    corrupt_batch,
    not_a_pair,
    not_bytes,
    record_too_large,
)
from kclient.records.seal import seal_batch
from kclient.types import Record

NAME = "c"

include "_compiled_wire.pxi"
include "_compiled_encoder.pxi"
include "_compiled_writer.pxi"
include "_compiled_reader.pxi"
include "_compiled_columns.pxi"
include "_compiled_murmur.pxi"
