# Numbers and byte strings as they lie on the wire, both ways.

cdef extern from *:
    """
    /* A record is a tuple of another type, made as tuple's own constructor makes one. All it
       holds is immutable, so it cannot be part of a cycle and the collector need not see it:
       that is also why nobody sees it before it is filled. */
    static PyObject *kc_new_tuple(PyObject *type, Py_ssize_t size) {
        PyObject *made = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, size);
        if (made != NULL) PyObject_GC_UnTrack(made);
        return made;
    }
    static void kc_set_item(PyObject *tuple, Py_ssize_t index, PyObject *item) {
        Py_INCREF(item);
        PyTuple_SET_ITEM(tuple, index, item);
    }
    """
    object kc_new_tuple(object kind, Py_ssize_t size)
    void kc_set_item(object made, Py_ssize_t index, object item) noexcept
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    object PyUnicode_DecodeUTF8(const char *text, Py_ssize_t size, const char *errors)
    int PyUnicode_CheckExact(object text) noexcept
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1

cdef enum:
    MAX_SIZE = 0x7FFFFFFF  # of a record, in bytes

cdef struct Slice:
    const uint8_t *data
    Py_ssize_t size  # -1: null


cdef Slice NULL_SLICE = Slice(NULL, -1)

# --- reading ---

cdef enum Fault:
    FINE
    CUT_SHORT
    NEGATIVE
    OVER_32_BITS
    OVER_5_BYTES
    OVER_10_BYTES
    NEGATIVE_SIZE
    HEADER_COUNT
    NO_HEADER_KEY
    DISAGREE
    NO_MEMORY

FAULTS = {
    CUT_SHORT: "a record is cut short",
    NEGATIVE: "a record has a negative length or offset",
    OVER_32_BITS: "a length or offset of more than 32 bits",
    OVER_5_BYTES: "a varint of more than 5 bytes",
    OVER_10_BYTES: "a varint of more than 10 bytes",
    NEGATIVE_SIZE: "a key, value or header has a negative length",
    HEADER_COUNT: "a record has more headers than bytes, or less than none",
    NO_HEADER_KEY: "a header without a key",
    DISAGREE: "a record's length and content disagree",
}

cdef struct Cursor:
    const uint8_t *pos
    const uint8_t *end
    Fault fault


cdef inline void blame(Cursor *at, Fault fault) noexcept nogil:
    if at.fault == FINE:
        at.fault = fault


cdef inline uint8_t get_byte(Cursor *at) noexcept nogil:
    cdef uint8_t byte
    if at.pos == at.end:
        blame(at, CUT_SHORT)
        return 0
    byte = at.pos[0]
    at.pos += 1
    return byte


cdef inline uint64_t get_varint(Cursor *at, int limit) noexcept nogil:
    """A varint of at most ``limit`` bytes; its sign is still the lowest bit."""
    cdef uint8_t byte = get_byte(at)
    if byte < 0x80:
        return byte
    return get_long_varint(at, limit, byte)


cdef uint64_t get_long_varint(Cursor *at, int limit, uint8_t byte) noexcept nogil:
    cdef uint64_t value = byte & 0x7F
    cdef int index
    for index in range(1, limit):
        byte = get_byte(at)
        value |= <uint64_t>(byte & 0x7F) << 7 * index
        if byte < 0x80:
            if limit == 5 and value >> 32:
                blame(at, OVER_32_BITS)
                return 0
            return value
    blame(at, OVER_5_BYTES if limit == 5 else OVER_10_BYTES)
    return 0


cdef inline int64_t unzigzag(uint64_t raw) noexcept nogil:
    return <int64_t>(raw >> 1 ^ (0 - (raw & 1)))


cdef inline Slice get_slice(Cursor *at) noexcept nogil:
    """Bytes with their length in front, or null."""
    cdef uint64_t raw = get_varint(at, 5)
    cdef Slice found
    if raw & 1:
        if raw != 1:
            blame(at, NEGATIVE_SIZE)
        return NULL_SLICE
    if raw >> 1 > <uint64_t>(at.end - at.pos):
        blame(at, CUT_SHORT)
        return NULL_SLICE
    found.data = at.pos
    found.size = <Py_ssize_t>(raw >> 1)
    at.pos += found.size
    return found


# --- writing ---

cdef inline uint64_t zigzag(int64_t number) noexcept nogil:
    return <uint64_t>number << 1 ^ <uint64_t>(number >> 63)


cdef inline int varint_size(uint64_t raw) noexcept nogil:
    cdef int size = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t *put_varint(uint8_t *out, uint64_t raw) noexcept nogil:
    while raw > 0x7F:
        out[0] = <uint8_t>(raw | 0x80)
        out += 1
        raw >>= 7
    out[0] = <uint8_t>raw
    return out + 1


cdef inline int64_t slice_size(Slice part) noexcept nogil:
    """Bytes that ``put_slice`` writes."""
    if part.size < 0:
        return 1
    return varint_size(<uint64_t>part.size << 1) + <int64_t>part.size


cdef inline uint8_t *put_slice(uint8_t *out, Slice part) noexcept nogil:
    if part.size < 0:
        out[0] = 1
        return out + 1
    out = put_varint(out, <uint64_t>part.size << 1)
    if part.size:  # an empty Arrow column has no address
        memcpy(out, part.data, part.size)
    return out + part.size
