# SPDX-License-Identifier: Apache-2.0
"""Which Python function computes which op type on the CPU."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from opendpu.ops import kinds_where, operator_of
from opendpu_arch.errors import GraphError, UnsupportedError
from xir import Op

Array = npt.NDArray[Any]
Implementation = Callable[[Op, Sequence[Array]], Array]
"""From an op and its input arrays, in the order of its arguments, to its result."""

CUSTOM_PACKAGE = "vart_op_imp"
"""Where VART looks for custom ops: a module and a class, both named like the op type."""

_IMPLEMENTATIONS: dict[str, Implementation] = {}


def register(*op_types: str) -> Callable[[Implementation], Implementation]:
    """Return a decorator that makes a function compute these op types; the last one wins."""

    def decorate(implementation: Implementation) -> Implementation:
        _IMPLEMENTATIONS.update(dict.fromkeys(op_types, implementation))
        return implementation

    return decorate


def register_class(op_type: str, implementation: type) -> None:
    """Make a class in VART's form compute ``op_type``.

    The class is called with the op; its ``calculate(output, inputs)`` fills ``output``.
    """
    register(op_type)(_adapt(implementation))


def unregister(op_type: str) -> None:
    """Forget how to compute ``op_type``."""
    _IMPLEMENTATIONS.pop(op_type, None)


def registered() -> list[str]:
    """Return the op types that can be computed, by name."""
    return sorted({*_IMPLEMENTATIONS, *kinds_where(lambda operator: operator.emit)})


def python_for(op: Op) -> Implementation | None:
    """Return the Python function that computes ``op``, if there is one.

    An op type that neither is registered nor has a kernel in :mod:`opendpu.ops` is looked for in
    the package ``vart_op_imp``.
    """
    kind = op.get_type()
    if kind not in _IMPLEMENTATIONS and operator_of(kind).emit is None:
        custom = _import_custom(kind)
        if custom is not None:
            register_class(kind, custom)
    return _IMPLEMENTATIONS.get(kind)


def refuse(op: Op) -> NoReturn:
    """Raise the UnsupportedError for an op that nothing computes."""
    kind = op.get_type()
    raise UnsupportedError(
        f"op {op.get_name()!r} has type {kind!r}, which the CPU cannot compute; register "
        f"it with opendpu.runtime.cpu.register({kind!r}), or put a class {kind} with "
        f"calculate(self, output, input) into {CUSTOM_PACKAGE}/{kind}.py",
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


def _import_custom(kind: str) -> type | None:
    if not kind.isidentifier():
        return None
    module = f"{CUSTOM_PACKAGE}.{kind}"
    try:
        found = getattr(importlib.import_module(module), kind, None)
    except ModuleNotFoundError as error:
        if error.name not in (CUSTOM_PACKAGE, module):
            raise
        return None
    return found if isinstance(found, type) else None


def _adapt(implementation: type) -> Implementation:
    def compute(op: Op, inputs: Sequence[Array]) -> Array:
        tensor = op.get_output_tensor()
        output = np.zeros(tensor.dims, tensor.data_type.numpy())
        implementation(op).calculate(output, list(inputs))
        return output

    return compute
