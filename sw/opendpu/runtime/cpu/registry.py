# SPDX-License-Identifier: Apache-2.0
"""Which Python function computes which op type on the CPU."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar, overload

import numpy as np
import numpy.typing as npt

from opendpu.ops import kinds_where, operator_of
from opendpu.runtime.cpu import custom, native
from opendpu_arch.errors import GraphError, UnsupportedError
from xir import Op

Array = npt.NDArray[Any]
Implementation = Callable[[Op, Sequence[Array]], Array]
"""From an op and its input arrays, in the order of its arguments, to its result."""

Class = TypeVar("Class", bound=type)

_IMPLEMENTATIONS: dict[str, Implementation] = {}


def register(*op_types: str) -> Callable[[Implementation], Implementation]:
    """Return a decorator that makes a function compute these op types; the last one wins."""

    def decorate(implementation: Implementation) -> Implementation:
        _IMPLEMENTATIONS.update(dict.fromkeys(op_types, implementation))
        return implementation

    return decorate


@overload
def register_class(op_type: str, implementation: type) -> None: ...


@overload
def register_class(op_type: str) -> Callable[[Class], Class]: ...


def register_class(
    op_type: str, implementation: type | None = None
) -> Callable[[Class], Class] | None:
    """Make a class in VART's form compute ``op_type``; without the class, return a decorator.

    What such a class has is said in :class:`opendpu.runtime.cpu.custom.CustomOp`.
    """
    if implementation is not None:
        register(op_type)(custom.CustomOp(implementation))
        return None

    def decorate(decorated: Class) -> Class:
        register(op_type)(custom.CustomOp(decorated))
        return decorated

    return decorate


def register_library(op_type: str, library: str | pathlib.Path) -> None:
    """Make a shared library of C++ compute ``op_type``, see ``docs/cpp.md``.

    Raises
    ------
    ToolError
        The library cannot be loaded, or is no custom op.
    """
    register(op_type)(native.NativeOp(library))


def unregister(op_type: str) -> None:
    """Forget how to compute ``op_type``."""
    _IMPLEMENTATIONS.pop(op_type, None)


def registered() -> list[str]:
    """Return the op types that can be computed, by name."""
    return sorted({*_IMPLEMENTATIONS, *kinds_where(lambda operator: operator.emit)})


def python_for(op: Op) -> Implementation | None:
    """Return the Python function that computes ``op``, if there is one.

    An op type that is not registered is looked for in the package ``vart_op_imp``, which comes
    before our kernels, then, if it has no kernel in :mod:`opendpu.ops`, as the library
    ``libvart_op_imp_<type>.so``: boards have some of AMD's by these names.
    """
    kind = op.get_type()
    if kind not in _IMPLEMENTATIONS:
        found = custom.find(kind)
        unknown = found is None and operator_of(kind).emit is None
        library = native.find(kind) if unknown else None
        if found is not None:
            register_class(kind, found)
        elif library is not None:
            register(kind)(library)
    return _IMPLEMENTATIONS.get(kind)


def refuse(op: Op) -> NoReturn:
    """Raise the UnsupportedError for an op that nothing computes."""
    kind = op.get_type()
    raise UnsupportedError(
        f"op {op.get_name()!r} has type {kind!r}, which the CPU cannot compute; register "
        f"it with opendpu.runtime.cpu.register({kind!r}), or put a class {kind} with "
        f"calculate(self, output, input) into {custom.PACKAGE}/{kind}.py, or a library "
        f"libvart_op_imp_{kind}.so where the loader finds it",
        code="VAILIB_CPU_RUNNER_CPU_OP_NOT_FIND",
    )


def call(op: Op, inputs: Sequence[Array]) -> Array:
    """Return what the Python function of ``op`` computes, in the type of the op's tensor.

    Raises
    ------
    UnsupportedError
        There is no such function.
    GraphError
        The result has other dimensions than the tensor.
    """
    tensor = op.get_output_tensor()
    function = python_for(op) or refuse(op)
    try:
        result = np.asarray(function(op, inputs))
    except Exception as error:
        error.add_note(f"while computing op {op.get_name()!r} ({op.get_type()})")
        raise
    if result.shape != tuple(tensor.dims):
        raise GraphError(
            f"op {op.get_name()!r} ({op.get_type()}) gave dimensions {list(result.shape)}, "
            f"but its tensor has {tensor.dims}"
        )
    return np.ascontiguousarray(result, tensor.data_type.numpy()).reshape(result.shape)
