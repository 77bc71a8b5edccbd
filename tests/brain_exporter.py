"""Export bfloat16 through DLPack as tensors do, without a library that has tensors."""

from __future__ import annotations

import ctypes

_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Exporter:
    """Exports memory as bfloat16: NumPy's own DLPack capsule with the type code changed."""

    # The type code follows the data address, two device numbers and the number of dimensions.
    CODE_AT = ctypes.sizeof(ctypes.c_void_p) + 12

    def __init__(self, bits, code=4, device=1, dtype="torch.bfloat16"):
        self._bits, self._code, self._device, self.dtype = bits, code, device, dtype

    def __dlpack_device__(self):
        return (self._device, 0)

    def __dlpack__(self, stream=None):
        capsule = self._bits.__dlpack__()
        code = ctypes.c_uint8.from_address(_pointer(capsule, b"dltensor") + self.CODE_AT)
        assert code.value == 1
        code.value = self._code
        return capsule
