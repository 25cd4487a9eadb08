# SPDX-License-Identifier: Apache-2.0
"""Objects that an execution provider library gives to onnxruntime: a version, then functions.

Their order is that of the C API (https://onnxruntime.ai/docs/api/c/, ``OrtEpFactory``, ``OrtEp``,
``OrtNodeComputeInfo``). A function that is not given is null, which onnxruntime allows for all but
the ones that are given here.
"""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from opendpu.onnxruntime.abi import API_VERSION

_POINTER, _STRING, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
_POINTERS = ctypes.POINTER(ctypes.c_void_p)

GET_STRING = ctypes.CFUNCTYPE(_POINTER, _POINTER)
"""Its result is a pointer, because the callee owns the string."""
CREATE_FACTORIES = ctypes.CFUNCTYPE(
    _POINTER, _STRING, _POINTER, _POINTER, _POINTERS, _SIZE, ctypes.POINTER(_SIZE)
)
RELEASE_FACTORY = ctypes.CFUNCTYPE(_POINTER, _POINTER)

FACTORY: dict[str, Any] = {
    "GetName": GET_STRING,
    "GetVendor": GET_STRING,
    "GetSupportedDevices": ctypes.CFUNCTYPE(
        _POINTER, _POINTER, _POINTERS, _SIZE, _POINTERS, _SIZE, ctypes.POINTER(_SIZE)
    ),
    "CreateEp": ctypes.CFUNCTYPE(
        _POINTER, _POINTER, _POINTERS, _POINTERS, _SIZE, _POINTER, _POINTER, _POINTERS
    ),
    "ReleaseEp": ctypes.CFUNCTYPE(None, _POINTER, _POINTER),
    "GetVendorId": ctypes.CFUNCTYPE(ctypes.c_uint32, _POINTER),
    "GetVersion": GET_STRING,
    "ValidateCompiledModelCompatibilityInfo": None,
    "CreateAllocator": ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTER, _POINTER, _POINTERS),
    "ReleaseAllocator": ctypes.CFUNCTYPE(None, _POINTER, _POINTER),
    "CreateDataTransfer": ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTERS),
    "IsStreamAware": ctypes.CFUNCTYPE(ctypes.c_bool, _POINTER),
    "CreateSyncStreamForDevice": None,
}
"""``OrtEpFactory``."""
EP: dict[str, Any] = {
    "GetName": GET_STRING,
    "GetCapability": ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTER, _POINTER),
    "Compile": ctypes.CFUNCTYPE(
        _POINTER, _POINTER, _POINTERS, _POINTERS, _SIZE, _POINTERS, _POINTERS
    ),
    "ReleaseNodeComputeInfos": ctypes.CFUNCTYPE(None, _POINTER, _POINTERS, _SIZE),
    "GetPreferredDataLayout": None,
    "ShouldConvertDataLayoutForOp": None,
    "SetDynamicOptions": None,
    "OnRunStart": None,
    "OnRunEnd": None,
    "CreateAllocator": None,
    "CreateSyncStreamForDevice": None,
    "GetCompiledModelCompatibilityInfo": None,
}
"""``OrtEp``."""
COMPUTE: dict[str, Any] = {
    "CreateState": ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTER, _POINTERS),
    "Compute": ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTER, _POINTER),
    "ReleaseState": ctypes.CFUNCTYPE(None, _POINTER, _POINTER),
}
"""``OrtNodeComputeInfo``."""


class FusionOptions(ctypes.Structure):
    """``OrtNodeFusionOptions``."""

    _fields_ = (("version", ctypes.c_uint32), ("drop_constant_initializers", ctypes.c_bool))


class Exported:
    """An object in memory as onnxruntime wants it: the version, and functions in Python.

    Parameters
    ----------
    layout
        The functions of the object in their order, with their types.
    functions
        Those that there are.
    """

    def __init__(self, layout: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]):
        self._callbacks = {name: layout[name](function) for name, function in functions.items()}
        self._memory = (ctypes.c_void_p * (1 + len(layout)))()
        self.version = API_VERSION
        self._memory[0] = API_VERSION
        for index, name in enumerate(layout, start=1):
            if name in self._callbacks:
                self._memory[index] = ctypes.cast(self._callbacks[name], _POINTER).value

    @property
    def address(self) -> int:
        """Where it is."""
        return ctypes.addressof(self._memory)
