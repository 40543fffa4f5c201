# The hash by which Java's client spreads keys over partitions. See ``murmur``.


cdef uint32_t murmur2_of(Slice key) noexcept nogil:
    cdef const uint8_t *data = key.data
    cdef Py_ssize_t size = key.size
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
    held = as_key(key)
    return <int32_t>murmur2_of(slice_of(held))


def murmur2_partitions(keys, int64_t count):
    """Give each key its partition out of ``count``, as Java's default partitioner does.

    Raises ValueError for a ``count`` below 1.
    """
    cdef list partitions = []
    check_count(count)
    for key in keys:
        held = as_key(key)
        partitions.append(partition_of(slice_of(held), count))
    return partitions


cdef int check_count(int64_t count) except -1:
    if count < 1:
        raise ValueError(f"a topic cannot have {count} partitions")
    return 0


cdef inline bytes as_key(object key):
    return key if PyBytes_CheckExact(key) else bytes(memoryview(key))


cdef inline uint32_t partition_of(Slice key, int64_t count) noexcept nogil:
    return <uint32_t>((murmur2_of(key) & 0x7FFFFFFFU) % <uint64_t>count)


def murmur2_arrow(rows, int64_t count):
    """Give the keys of Arrow rows their partitions, as a column of int32; null has null.

    Raises ValueError for a ``count`` below 1.
    """
    cdef Source keys = sources_of(rows).key
    cdef int64_t size = len(rows)
    cdef PartitionColumn found = PartitionColumn.__new__(PartitionColumn)
    cdef Stop stop
    check_count(count)
    load_arrow()
    with nogil:
        stop = found.fill(&keys, size, count)
    if stop == NEEDS_ROOM:
        raise MemoryError
    if stop != AT_END:
        raise stopped(stop, -1, 0)
    valid = taken(&found.column.valid)
    return plain_column(pa.int32(), size, valid if found.column.nulls else None, &found.column.data)


@cython.final
cdef class PartitionColumn:
    """Partitions as they are found; what is not handed over is freed."""

    cdef Column column

    def __dealloc__(self):
        free_column(&self.column)

    cdef Stop fill(self, Source *keys, int64_t size, int64_t count) noexcept nogil:
        cdef Stop stop = AT_END
        cdef Slice key
        cdef uint32_t value
        if not (reserve_valid(&self.column, size) and reserve(&self.column.data, 4 * size)):
            return NEEDS_ROOM
        while self.column.rows < size and stop == AT_END:
            key = cell(keys, self.column.rows, &stop)
            value = 0
            if key.size < 0:
                mark_null(&self.column)
            else:
                value = partition_of(key, count)
            put_int32(&self.column.data, <int32_t>value)
            self.column.rows += 1
        return stop
