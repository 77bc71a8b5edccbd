"""DLPack's bfloat16 tensors, re-typed so that NumPy accepts them.

NumPy refuses the type. The consumer of a DLPack capsule owns the description inside, so its type
can be changed to an unsigned integer of the same size before NumPy sees it.
"""

from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

# Codes of types, as dlpack.h numbers them.
cdef enum:
    UNSIGNED = 1
    BFLOAT = 4


# The structs of dlpack.h, the same since its first version.
cdef struct DataType:
    uint8_t code
    uint8_t bits
    uint16_t lanes


cdef struct Tensor:
    void *data
    int32_t device_type
    int32_t device_id
    int32_t ndim
    DataType dtype
    int64_t *shape
    int64_t *strides
    uint64_t byte_offset


class Bits:
    """Exports the bfloat16 of another exporter as uint16.

    Parameters
    ----------
    exporter : object
        Has ``__dlpack__`` and ``__dlpack_device__``.
    """

    def __init__(self, exporter):
        self.exporter = exporter
        # For error messages.
        self.dtype = getattr(exporter, "dtype", "")

    def __dlpack_device__(self):
        return self.exporter.__dlpack_device__()

    def __dlpack__(self, **unused):
        # Without arguments: every exporter supports this form, and none copies in it.
        capsule = self.exporter.__dlpack__()
        cdef Tensor *tensor = <Tensor *> PyCapsule_GetPointer(capsule, "dltensor")
        if (tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes) != (BFLOAT, 16, 1):
            raise TypeError(
                f"it must be bfloat16, got DLPack type ({tensor.dtype.code}, "
                f"{tensor.dtype.bits}, {tensor.dtype.lanes})")
        tensor.dtype.code = UNSIGNED
        return capsule
