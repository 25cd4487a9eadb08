# SPDX-License-Identifier: Apache-2.0
"""Functions that are one operation of the user, and stay float."""

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

from opendpu.frontend.pytorch.markers import mark
from pytorch_nndct import messages

_REGISTERED: dict[str, Callable[..., Any]] = {}

Function = Callable[..., torch.Tensor]


def register_custom_op(
    op_type: str, attrs_list: Sequence[str] | None = None, mapping_to_xir: bool = False
) -> Callable[[Function], Function]:
    """Return a decorator for a function whose operations are not quantized.

    They are computed by the CPU in float. The function's first parameter is a context, an empty
    object, as ``torch.autograd.Function`` has one; it returns one tensor.

    Parameters
    ----------
    op_type
        Name of the operation; each can be registered once.
    attrs_list
        Names of the parameters that are attributes, in the order of the function's parameters.
    mapping_to_xir
        Accepted: its operators are in the ``.xmodel`` in any case, one by one.

    Raises
    ------
    VAIQError
        There is such an operation, ``attrs_list`` names what is no parameter, or the function
        returns no tensor.
    """
    if op_type in _REGISTERED:
        raise messages.error(
            "QUANTIZER_TORCH_OP_REGIST",
            f"operation {op_type!r} is registered already, for "
            f"{_REGISTERED[op_type].__qualname__}; choose another op_type",
        )

    def decorate(function: Function) -> Function:
        code = function.__code__
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        unknown = [name for name in attrs_list or () if name not in names[1:]]
        if unknown:
            raise messages.error(
                "QUANTIZER_TORCH_OP_REGIST",
                f"attrs_list of operation {op_type!r} has {unknown[0]!r}, but the parameters of "
                f"{function.__qualname__} are: {', '.join(names[1:]) or 'none'}",
            )
        _REGISTERED[op_type] = function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> torch.Tensor:
            def begun(value: Any) -> Any:
                return mark("float_begin", value) if isinstance(value, torch.Tensor) else value

            context = types.SimpleNamespace(op_type=op_type)
            found = function(context, *map(begun, args), **{k: begun(v) for k, v in kwargs.items()})
            if not isinstance(found, torch.Tensor):
                raise messages.error(
                    "QUANTIZER_TORCH_UNSUPPORTED_OPS",
                    f"operation {op_type!r} returns {type(found).__name__}, but must return one "
                    "tensor",
                )
            return mark("float_end", found)

        return call

    return decorate
