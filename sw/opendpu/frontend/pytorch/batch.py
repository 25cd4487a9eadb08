# SPDX-License-Identifier: Apache-2.0
"""One sample of the inputs that a module takes many of at a time; the DPU takes one."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from opendpu.frontend.pytorch.capture import TRACE, evaluating, failure
from opendpu.frontend.pytorch.signature import leaves_of, mapped
from opendpu.ir import Array
from opendpu_arch.errors import UnsupportedError

TOLERANCE = 1e-3
"""Of the largest magnitude of a result: kernels add in another order for other sizes."""

Call = tuple[tuple[Any, ...], dict[str, Any]]


def single_sample(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    numbers: bool = False,
) -> tuple[Call, Any, bool]:
    """Return a call with one sample, its result, and whether the module takes several at a time.

    That is tried: the first result for several samples has to be the result for the first. A
    module for which it is not, because it mixes samples or has a fixed batch, keeps the call that
    is given. A tensor that holds one sample beside tensors that hold several is that of each; with
    ``numbers``, so is one without axes.

    Raises
    ------
    UnsupportedError
        The module cannot be called as given.
    """
    given: Call = (tuple(args), dict(kwargs))
    try:
        whole = _run(module, given)
    except Exception as error:  # whatever the user's code raises
        raise UnsupportedError(failure(module, error), code=TRACE) from error
    tensors = [leaf for leaf in leaves_of(given) if isinstance(leaf, torch.Tensor)]
    sizes = {
        tensor.shape[0] if tensor.ndim else 0 for tensor in tensors if tensor.ndim or not numbers
    }
    size = max(sizes, default=0)
    if not sizes or 0 in sizes or not sizes <= {1, size}:
        return given, whole, False
    try:
        if size > 1:
            many = whole
            if len(sizes) > 1:
                many = _run(module, _changed(given, lambda tensor: repeated(tensor, size)))
            one = _changed(given, lambda tensor: tensor[:1] if tensor.ndim else tensor)
            result = _run(module, one)
            return (one, result, True) if _first(many, result, size) else (given, whole, False)
        two = _changed(given, lambda t: torch.cat([t, t.flip(-1)]) if t.ndim else t)
        return given, whole, _first(_run(module, two), whole, 2)
    except Exception:  # a module for this one batch
        return given, whole, False


def repeated(tensor: torch.Tensor, size: int) -> torch.Tensor:
    """Return a tensor with one sample as one with ``size`` of them, others as they are."""
    alone = tensor.ndim and len(tensor) == 1
    return tensor.repeat(size, *[1] * (tensor.ndim - 1)) if alone else tensor


def computes_first(single: torch.nn.Module, args: Sequence[torch.Tensor], whole: Any) -> bool:
    """Return whether ``single`` gives of the first sample what is given of it among all.

    Parameters
    ----------
    single
        Takes one sample.
    args
        At least two samples each.
    whole
        The result for all of ``args``.
    """
    try:
        one = _run(single, (tuple(arg[:1] if arg.ndim else arg for arg in args), {}))
    except Exception:  # whatever the user's code raises
        return False
    return _first(whole, one, max(len(arg) for arg in args if arg.ndim))


def array_of(tensor: torch.Tensor) -> Array:
    """Return the values of a tensor; numpy has no bfloat16, whose values float32 has too."""
    tensor = tensor.detach().cpu()
    found: Array = (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()
    return found


def stacked(array: Array, shape: Sequence[int], count: int) -> Array:
    """Return results of samples, one after the other, with the samples along the first axis.

    Where the result for one sample has no axis for it (``x.squeeze()``), that for several has.

    Parameters
    ----------
    array
        The results.
    shape
        Of the result for one sample.
    count
        How many there are.
    """
    if count < 2 or tuple(shape[:1]) == (1,) or array.size != count * math.prod(shape):
        return array
    return array.reshape(count, *shape)


def _run(module: torch.nn.Module, call: Call) -> Any:
    """Return what a module in evaluation mode makes of inputs, which stay as they are."""
    args, kwargs = _changed(call, torch.clone)
    with evaluating(module):
        return module(*args, **kwargs)


def _changed(call: Call, change: Any) -> Call:
    """Return a call with other tensors."""
    args, kwargs = mapped(
        call, lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf
    )
    return args, kwargs


def _first(whole: Any, one: Any, size: int) -> bool:
    """Return whether each result for ``size`` samples begins with the result for the first one."""
    pairs = list(zip(leaves_of(whole), leaves_of(one), strict=True))
    if not any(isinstance(many, torch.Tensor) for many, _ in pairs):
        return False
    return all(alike(many, single, size) for many, single in pairs)


def alike(many: Any, single: Any, size: int) -> bool:
    """Return whether a value for ``size`` samples begins with the one for the first of them."""
    if not isinstance(many, torch.Tensor):
        return bool(many == single)
    alone = tuple(single.shape) if single.shape[:1] == (1,) else (1, *single.shape)
    if not many.ndim or tuple(many.shape) != (size, *alone[1:]):
        return False
    if not many.is_floating_point():
        return True
    first, other = many[:1].flatten().double(), single.flatten().double()
    bound = TOLERANCE * max(float(other.abs().max()) if other.numel() else 0.0, 1e-30)
    return bool(((first - other).abs() <= bound).all())
