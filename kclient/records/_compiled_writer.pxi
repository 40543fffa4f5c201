# The writer. See ``pure_writer``.

cdef extern from "Python.h":
    int PyByteArray_Resize(bytearray store, Py_ssize_t size) except -1
    char *PyByteArray_AS_STRING(bytearray store) noexcept

cdef enum:
    BATCH_HEADER = 61  # bytes before the records of a batch
    FIRST_ROOM = 512


cdef inline object as_bytes(object data):
    """None, or bytes that nobody can change. May call into Python."""
    if data is None or PyBytes_CheckExact(data):
        return data
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise not_bytes(data)
    return bytes(data)


cdef inline Slice slice_of(object held) noexcept:
    """Where the result of ``as_bytes`` lies, for as long as that is held."""
    cdef Slice part = NULL_SLICE
    if held is not None:
        part.data = <const uint8_t *>PyBytes_AS_STRING(held)
        part.size = PyBytes_GET_SIZE(held)
    return part


cdef inline int64_t as_time(object timestamp) except? -1:
    """A timestamp in 64 bits. May call into Python."""
    cdef int overflow = 0
    cdef int64_t time = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
    if overflow:
        raise bad_timestamp(timestamp)
    return time


# --- headers: tuples of a key, text or its bytes, and a value, bytes or None ---

cdef tuple plain_headers(object given):
    """Headers of exactly those types, so that no Python code runs when they are written."""
    cdef tuple headers = tuple(given)
    for header in headers:
        if not (
            PyTuple_CheckExact(header)
            and PyTuple_GET_SIZE(header) == 2
            and PyUnicode_CheckExact(<object>PyTuple_GET_ITEM(header, 0))
            and is_plain(<object>PyTuple_GET_ITEM(header, 1))
        ):
            return tuple([converted_header(each) for each in headers])
    return headers


cdef inline bint is_plain(object data):
    return data is None or PyBytes_CheckExact(data)


cdef tuple converted_header(object header):
    try:
        key, value = header
        text = as_bytes(key.encode())
    except (AttributeError, TypeError, ValueError):
        raise bad_header(header) from None
    return text, as_bytes(value)


cdef object bad_header(object header):
    return SerializationError(f"a header is a pair of text and bytes or None, not {header!r}")


cdef Slice key_slice(tuple header) except *:
    """Where the key of a plain header lies; calls nothing but the UTF-8 encoder."""
    cdef object key = <object>PyTuple_GET_ITEM(header, 0)
    cdef Slice part
    if PyBytes_CheckExact(key):
        return slice_of(key)
    try:
        part.data = <const uint8_t *>PyUnicode_AsUTF8AndSize(key, &part.size)
    except ValueError:  # text that is not Unicode
        raise bad_header(header) from None
    return part


cdef int64_t headers_size(tuple headers) except -1:
    """Bytes that ``put_headers`` writes."""
    cdef int64_t size
    if headers is None:
        return 1
    size = varint_size(<uint64_t>PyTuple_GET_SIZE(headers) << 1)
    for header in headers:
        size += slice_size(checked(key_slice(<tuple>header)))
        size += slice_size(checked(slice_of(<object>PyTuple_GET_ITEM(header, 1))))
        check_size(size)
    return size


cdef uint8_t *put_headers(uint8_t *out, tuple headers) except NULL:
    if headers is None:
        out[0] = 0
        return out + 1
    out = put_varint(out, <uint64_t>PyTuple_GET_SIZE(headers) << 1)
    for header in headers:
        out = put_slice(out, key_slice(<tuple>header))
        out = put_slice(out, slice_of(<object>PyTuple_GET_ITEM(header, 1)))
    return out


cdef inline int check_size(int64_t size) except -1:
    """Refuse what no record may have. Sums of a few allowed sizes never overflow."""
    if size > MAX_SIZE:
        raise record_too_large(size)
    return 0


cdef inline Slice checked(Slice part) except *:
    check_size(part.size)
    return part


# --- the writer ---

@cython.final
cdef class CompiledBatchWriter:
    """A batch v2 that grows record by record. See ``interface.BatchWriter``."""

    cdef object _compression
    cdef bytearray _store  # is not resized while exported, as when it is compressed
    cdef Batch _batch

    def __cinit__(self, compression):
        self._compression = compression
        self._store = bytearray()

    @property
    def count(self):
        """Records so far."""
        return self._batch.count

    @property
    def size(self):
        """Bytes so far, header included, before compression."""
        return BATCH_HEADER + self._batch.used

    def append(self, key, value, headers=(), timestamp=-1):
        """Add a record and return ``size``.

        Raises SerializationError for what is not bytes, or a header key that is not text,
        ProtocolError for a timestamp of more than 64 bits.
        """
        cdef object held_key = as_bytes(key)
        cdef object held_value = as_bytes(value)
        cdef int64_t time = as_time(timestamp)
        cdef tuple held_headers = plain_headers(headers) if headers else None
        self._put(slice_of(held_key), slice_of(held_value), held_headers, time, -1)
        return BATCH_HEADER + self._batch.used

    def append_values(self, list values not None, Py_ssize_t start, timestamp, int64_t limit):
        """Add records without keys; see ``append_pairs``."""
        cdef int64_t time = as_time(timestamp)
        cdef int64_t room = room_in(limit)
        cdef Py_ssize_t index = checked_start(start)
        cdef object held
        while index < PyList_GET_SIZE(values):
            held = as_bytes(<object>PyList_GET_ITEM(values, index))
            if not self._put(NULL_SLICE, slice_of(held), None, time, room):
                break
            index += 1
        return index

    def append_pairs(self, list pairs not None, Py_ssize_t start, timestamp, int64_t limit):
        """Add keys and values from index ``start`` while ``size`` stays within ``limit``.

        Returns the index of the first one not taken; an empty batch takes one in any case.
        Raises what ``append`` raises; the records before the wrong one are in the batch.
        """
        cdef int64_t time = as_time(timestamp)
        cdef int64_t room = room_in(limit)
        cdef Py_ssize_t index = checked_start(start)
        cdef object pair, held_key, held_value
        while index < PyList_GET_SIZE(pairs):
            pair = <object>PyList_GET_ITEM(pairs, index)
            if not (PyTuple_CheckExact(pair) and PyTuple_GET_SIZE(pair) == 2):
                pair = as_pair(pair)
            held_key = as_bytes(<object>PyTuple_GET_ITEM(pair, 0))
            held_value = as_bytes(<object>PyTuple_GET_ITEM(pair, 1))
            if not self._put(slice_of(held_key), slice_of(held_value), None, time, room):
                break
            index += 1
        return index

    def append_arrow(self, rows, Py_ssize_t start, timestamp, int64_t limit):
        """Add Arrow rows from index ``start`` while ``size`` stays within ``limit``.

        As ``append_pairs``; ``timestamp`` is for rows that have none of their own.
        """
        cdef int64_t time = as_time(timestamp)
        cdef int64_t room = room_in(limit)
        cdef int64_t row = checked_start(start)
        cdef int64_t last = len(rows)
        cdef Sources sources = sources_of(rows)
        cdef Stop stop = NEEDS_ROOM
        cdef int64_t need = 0
        cdef Py_buffer held
        cdef Batch batch
        while stop == NEEDS_ROOM:
            self._reserve(need)
            PyObject_GetBuffer(self._store, &held, PyBUF_SIMPLE)  # so that it stays in place
            batch = self._batch
            with nogil:
                row = encode_rows(&batch, &sources, row, last, time, room, &stop, &need)
            self._batch = batch
            PyBuffer_Release(&held)
        if stop != AT_END:
            raise stopped(stop, row, need)
        return row

    def seal(
        self,
        *,
        base_offset=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        transactional=False,
    ):
        """Return the finished batch: header, checksum, compressed if the writer is told so.

        May be called again, say with a new producer epoch. Raises ProtocolError if a number
        does not fit the header, MissingCodec.
        """
        if not self._batch.count:
            return b""
        with memoryview(self._store) as whole, whole[: self._batch.used] as section:
            return seal_batch(
                section,
                self._batch.count,
                (self._batch.base_timestamp, self._batch.max_timestamp),
                self._compression,
                base_offset=base_offset,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                transactional=transactional,
            )

    cdef bint _put(self, Slice key, Slice value, tuple headers, int64_t time, int64_t room) except -1:
        """Write a record, unless there is one already and it needs more than ``room``.

        ``room`` counts all bytes of all records, without the batch's header; -1: any.
        """
        cdef Batch *batch = &self._batch
        cdef int64_t size
        check_size(key.size)
        check_size(value.size)
        size = headers_size(headers) + fields_size(batch, time, key, value)
        check_size(size)
        if batch.count and 0 <= room < batch.used + whole_size(size):
            return False
        self._reserve(whole_size(size))
        count_in(batch, put_headers(put_fields(batch, size, time, key, value), headers), time)
        return True

    cdef inline int _reserve(self, int64_t size) except -1:
        """Make sure that ``size`` bytes more have room."""
        cdef Batch *batch = &self._batch
        cdef Py_ssize_t capacity
        if size > batch.capacity - batch.used:
            capacity = max(batch.used + size, 2 * batch.capacity, FIRST_ROOM)
            PyByteArray_Resize(self._store, capacity)
            batch.capacity = capacity
            batch.start = <uint8_t *>PyByteArray_AS_STRING(self._store)
        return 0


def open_batch(compression):
    """Start a batch v2."""
    return CompiledBatchWriter(compression)


cdef Sources sources_of(object rows) except *:
    """Where the columns of ``arrow_rows.ArrowRows`` lie."""
    cdef Sources found
    cdef tuple layouts = rows.layouts
    found.key = source_at(layouts[0])
    found.value = source_at(layouts[1])
    found.timestamp = source_at(layouts[2])
    found.headers = source_at(layouts[3])
    found.header_key = source_at(layouts[4])
    found.header_value = source_at(layouts[5])
    return found


cdef Source source_at(object layout) except *:
    cdef Source found
    memset(&found, 0, sizeof(Source))
    if layout is not None:
        validity, numbers, data, size, wide, shift = layout
        found.present = True
        found.validity = <const uint8_t *><uintptr_t>validity
        found.numbers = <const uint8_t *><uintptr_t>numbers
        found.data = <const uint8_t *><uintptr_t>data
        found.size = size
        found.wide = wide
        found.shift = shift
    return found


cdef object stopped(Stop stop, int64_t row, int64_t size):
    """The error for a row that cannot be written."""
    if stop == TOO_LARGE:
        return record_too_large(size)
    if stop == KEYLESS_HEADER:
        return header_without_key(row)
    return SerializationError(f"row {row} of an Arrow column changed while it was written")


cdef inline int64_t room_in(int64_t limit) noexcept:
    """How much of ``limit`` is left for records; 0 at least, for -1 means any."""
    return limit - BATCH_HEADER if limit > BATCH_HEADER else 0


cdef inline Py_ssize_t checked_start(Py_ssize_t start) except -1:
    if start < 0:
        raise IndexError(f"a run cannot start at index {start}")
    return start


cdef tuple as_pair(object item):
    """Take anything of two parts apart. May call into Python."""
    try:
        key, value = item
    except (TypeError, ValueError):
        raise not_a_pair(item) from None
    return key, value
