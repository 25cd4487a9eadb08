# SPDX-License-Identifier: Apache-2.0
"""The part of onnxruntime's C ABI that an execution provider library uses, for ctypes.

onnxruntime hands out a table of function pointers. Its order never changes; functions are added at
its end (https://onnxruntime.ai/docs/api/c/, ``OrtApi``). So a function is known by its position,
and all that are used here are there since :data:`API_VERSION`.
"""

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

from opendpu_arch.errors import ToolError

API_VERSION = 23
"""The version of the table that is asked for: the first with graphs for providers (1.23)."""

OK, FAIL, INVALID_ARGUMENT = 0, 1, 2
"""``OrtErrorCode``."""
WARNING = 2
"""``OrtLoggingLevel``."""

_POINTER = ctypes.c_void_p
_STRING = ctypes.c_char_p
_SIZE = ctypes.c_size_t


class Function(Protocol):
    """A function pointer of ctypes."""

    def __call__(self, *arguments: Any) -> Any:
        """Call it."""
        ...


_STATUS = "status"
"""Result of functions that can fail."""
_API: dict[str, tuple[int, Any]] = {
    "CreateStatus": (0, _POINTER),
    "GetErrorMessage": (2, _STRING),
    "CastTypeInfoToTensorInfo": (55, _STATUS),
    "GetTensorElementType": (60, _STATUS),
    "GetDimensionsCount": (61, _STATUS),
    "GetDimensions": (62, _STATUS),
    "GetSymbolicDimensions": (63, _STATUS),
    "GetTensorTypeAndShape": (65, _STATUS),
    "GetTensorMutableData": (51, _STATUS),
    "KernelContext_GetInputCount": (88, _STATUS),
    "KernelContext_GetOutputCount": (89, _STATUS),
    "KernelContext_GetInput": (90, _STATUS),
    "KernelContext_GetOutput": (91, _STATUS),
    "ReleaseStatus": (93, None),
    "ReleaseValue": (96, None),
    "ReleaseTensorTypeAndShapeInfo": (99, None),
    "CreateOpAttr": (211, _STATUS),
    "ReleaseOpAttr": (212, None),
    "Logger_LogMessage": (247, _STATUS),
    "ReadOpAttr": (272, _STATUS),
    "GetValueInfoName": (289, _STATUS),
    "GetValueInfoTypeInfo": (290, _STATUS),
    "GetModelEditorApi": (291, _POINTER),
    "GetKeyValuePairs": (298, None),
    "ReleaseKeyValuePairs": (300, None),
    "HardwareDevice_Type": (307, ctypes.c_int),
    "GetEpApi": (317, _POINTER),
    "GetTensorSizeInBytes": (318, _STATUS),
    "ValueInfo_GetInitializerValue": (326, _STATUS),
    "Graph_GetName": (333, _STATUS),
    "Graph_GetModelPath": (334, _STATUS),
    "Graph_GetOnnxIRVersion": (335, _STATUS),
    "Graph_GetNumOperatorSets": (336, _STATUS),
    "Graph_GetOperatorSets": (337, _STATUS),
    "Graph_GetNumInputs": (338, _STATUS),
    "Graph_GetInputs": (339, _STATUS),
    "Graph_GetNumOutputs": (340, _STATUS),
    "Graph_GetOutputs": (341, _STATUS),
    "Graph_GetNumInitializers": (342, _STATUS),
    "Graph_GetInitializers": (343, _STATUS),
    "Graph_GetNumNodes": (344, _STATUS),
    "Graph_GetNodes": (345, _STATUS),
    "Graph_GetParentNode": (346, _STATUS),
    "Node_GetName": (349, _STATUS),
    "Node_GetOperatorType": (350, _STATUS),
    "Node_GetDomain": (351, _STATUS),
    "Node_GetNumInputs": (353, _STATUS),
    "Node_GetInputs": (354, _STATUS),
    "Node_GetNumOutputs": (355, _STATUS),
    "Node_GetOutputs": (356, _STATUS),
    "Node_GetNumAttributes": (359, _STATUS),
    "Node_GetAttributes": (360, _STATUS),
    "OpAttr_GetTensorAttributeAsOrtValue": (362, _STATUS),
    "OpAttr_GetType": (363, _STATUS),
    "OpAttr_GetName": (364, _STATUS),
    "Node_GetNumSubgraphs": (365, _STATUS),
    "Node_GetSubgraphs": (366, _STATUS),
    "GetSessionOptionsConfigEntries": (379, _STATUS),
}
"""Functions of ``OrtApi``: position, result."""
_EP_API: dict[str, tuple[int, Any]] = {
    "CreateEpDevice": (0, _STATUS),
    "EpGraphSupportInfo_AddNodesToFuse": (2, _STATUS),
}
"""Functions of ``OrtEpApi``."""
_EDITOR_API: dict[str, tuple[int, Any]] = {"CreateNode": (6, _STATUS)}
"""Functions of ``OrtModelEditorApi``."""

EVERY_FUNCTION = {"OrtApi": _API, "OrtEpApi": _EP_API, "OrtModelEditorApi": _EDITOR_API}
"""What is used of which table."""


class OrtError(Exception):
    """onnxruntime refused a call."""


class Api:
    """The functions of a running onnxruntime.

    Functions that return a status raise :class:`OrtError` with its message instead.

    Parameters
    ----------
    base
        The address of its ``OrtApiBase``.

    Raises
    ------
    ToolError
        This onnxruntime is older than 1.23.
    """

    def __init__(self, base: int) -> None:
        tables = ctypes.cast(base, ctypes.POINTER(_POINTER))
        get_api = ctypes.CFUNCTYPE(_POINTER, ctypes.c_uint32)(_address(tables[0]))
        get_version = ctypes.CFUNCTYPE(_STRING)(_address(tables[1]))
        self.version = (get_version() or b"").decode()
        check_version(self.version)
        self._tables = {"OrtApi": ctypes.cast(get_api(API_VERSION), ctypes.POINTER(_POINTER))}
        for table, getter in (("OrtEpApi", "GetEpApi"), ("OrtModelEditorApi", "GetModelEditorApi")):
            found = self._raw("OrtApi", getter)()
            self._tables[table] = ctypes.cast(found, ctypes.POINTER(_POINTER))

    def unchecked(self, name: str) -> Function:
        """Return a function of ``OrtApi`` whose status the caller looks at, and releases."""
        return self._raw("OrtApi", name)

    def _raw(self, table: str, name: str) -> Function:
        position, result = EVERY_FUNCTION[table][name]
        prototype = ctypes.CFUNCTYPE(_POINTER if result is _STATUS else result)
        found: Function = prototype(_address(self._tables[table][position]))
        return found

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function by its name."""
        table = next((t for t, functions in EVERY_FUNCTION.items() if name in functions), None)
        if table is None:
            raise AttributeError(f"no function {name!r} of onnxruntime is used")
        raw = self._raw(table, name)
        function = self._checked(raw) if EVERY_FUNCTION[table][name][1] is _STATUS else raw
        self.__dict__[name] = function
        return function

    def _checked(self, raw: Function) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            status = raw(*arguments)
            if status:
                message = self.GetErrorMessage(_POINTER(status)).decode(errors="replace")
                self.ReleaseStatus(_POINTER(status))
                raise OrtError(message)

        return call

    def status(self, message: str, code: int = FAIL) -> int:
        """Return a new status with a message, for onnxruntime to release."""
        made: int = self.CreateStatus(ctypes.c_int(code), message.encode())
        return made

    def pointer(self, function: str, *arguments: Any) -> int | None:
        """Return the pointer that a function gives through its last argument."""
        found = _POINTER()
        getattr(self, function)(*arguments, ctypes.byref(found))
        return found.value

    def size(self, function: str, *arguments: Any) -> int:
        """Return the ``size_t`` that a function gives through its last argument."""
        found = _SIZE()
        getattr(self, function)(*arguments, ctypes.byref(found))
        return found.value

    def text(self, function: str, *arguments: Any) -> str:
        """Return the string that a function gives through its last argument."""
        found = _STRING()
        getattr(self, function)(*arguments, ctypes.byref(found))
        return (found.value or b"").decode()

    def pointers(self, count: str, function: str, owner: int | None) -> list[int | None]:
        """Return the array of pointers that two functions give: its size, and then it."""
        number = self.size(count, _POINTER(owner))
        found = (_POINTER * number)()
        getattr(self, function)(_POINTER(owner), found, _SIZE(number))
        return list(found)


def _address(value: int | None) -> int:
    if not value:
        raise ToolError("onnxruntime lacks a function that execution provider libraries need")
    return value


def check_version(version: str) -> None:
    """Raise ToolError for an onnxruntime that takes no libraries like ours."""
    parts = version.split(".")
    numbers = tuple(int(part) for part in parts[:2] if part.isdigit())
    if numbers < (1, API_VERSION):
        raise ToolError(
            f"onnxruntime {version or 'of unknown version'} takes no execution provider libraries; "
            f"1.{API_VERSION} or newer is needed"
        )
