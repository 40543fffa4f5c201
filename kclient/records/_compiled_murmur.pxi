# The hash by which Java's client spreads keys over partitions. See ``murmur``.


cdef uint32_t murmur2_of(const uint8_t *data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t value = 0x9747B28CU ^ <uint32_t>size
    cdef uint32_t word
    while size >= 4:
        word = data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        word *= 0x5BD1E995U
        value = value * 0x5BD1E995U ^ (word ^ word >> 24) * 0x5BD1E995U
        data += 4
        size -= 4
    if size:
        if size == 3:
            value ^= <uint32_t>data[2] << 16
        if size >= 2:
            value ^= <uint32_t>data[1] << 8
        value = (value ^ data[0]) * 0x5BD1E995U
    value = (value ^ value >> 13) * 0x5BD1E995U
    return value ^ value >> 15


def murmur2(key):
    """Hash ``key`` to what Java's ``Utils.murmur2`` gives: a signed number of 32 bits."""
    cdef bytes held = key if PyBytes_CheckExact(key) else bytes(memoryview(key))
    return <int32_t>murmur2_of(<const uint8_t *>PyBytes_AS_STRING(held), PyBytes_GET_SIZE(held))


def murmur2_partitions(keys, int64_t count):
    """Give each key its partition out of ``count``, as Java's default partitioner does.

    Raises ValueError for a ``count`` below 1.
    """
    cdef list partitions = []
    cdef bytes held
    cdef uint32_t value
    if count < 1:
        raise ValueError(f"a topic cannot have {count} partitions")
    for key in keys:
        held = key if PyBytes_CheckExact(key) else bytes(memoryview(key))
        value = murmur2_of(<const uint8_t *>PyBytes_AS_STRING(held), PyBytes_GET_SIZE(held))
        partitions.append((value & 0x7FFFFFFFU) % <uint64_t>count)
    return partitions
