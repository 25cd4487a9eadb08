# SPDX-License-Identifier: Apache-2.0
"""The modules that a quantizer gives to the user's own loop."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from opendpu.frontend.pytorch import Traced
from opendpu.frontend.pytorch.batch import array_of
from opendpu.frontend.pytorch.capture import evaluating
from opendpu.frontend.pytorch.signature import leaves_of
from opendpu.ir import Array
from opendpu_arch.errors import TensorError
from pytorch_nndct import messages, traceable
from pytorch_nndct.calibration import Reservoir
from pytorch_nndct.guard import as_the_guide_says
from pytorch_nndct.messages import VAIQError
from pytorch_nndct.program import IntegerNetwork

SHAPE = "QUANTIZER_TORCH_SHAPE_MISMATCH"

Retrace = Callable[[tuple[Any, ...]], Traced | None]
"""Traces a module with other arguments; returns nothing if it does not take these."""


class QuantModel(torch.nn.Module):
    """What both have in common: they are called as the float module, and have its attributes.

    Parameters
    ----------
    module
        The float module; always computed as in evaluation mode, which is what is quantized.
    traced
        Its graph and how it is called.
    retrace
        Is called with the arguments of a call that have other sizes than the examples had.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        traced: Traced,
        retrace: Retrace | None = None,
    ) -> None:
        super().__init__()
        self.module = module
        self.traced = traced
        self._retrace = retrace
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the float module, where there is none of this one."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "module":  # while this one is made
                raise
            return getattr(self.module, name)

    def given(self, args: Any, kwargs: Any) -> tuple[dict[str, Array], int | None]:
        """Return the tensors of a call by name, and how many samples they are.

        Raises
        ------
        VAIQError
            A tensor has another shape than that of the trace, and the module cannot be traced with
            that. The number of samples may differ, and one sample beside several is that of each.
        """
        arrays = self._arrays(args, kwargs)
        try:
            self._check(arrays)
        except VAIQError:
            if kwargs or not self._traced_again(args):
                raise
            arrays = self._arrays(args, kwargs)
            self._check(arrays)
        counts = {len(array) if array.ndim else 0 for array in arrays.values()}
        if not self.traced.batched:
            self.calls += 1
            return arrays, None
        count = max(counts)
        if not counts <= {1, count}:
            raise messages.error(SHAPE, f"the inputs hold {sorted(counts)} samples")
        self.calls += 1
        return {
            name: np.broadcast_to(array, (count, *array.shape[1:]))
            for name, array in arrays.items()
        }, count

    def _arrays(self, args: Any, kwargs: Any) -> dict[str, Array]:
        with as_the_guide_says():
            tensors = self.traced.signature.tensors(args, kwargs)
        return {name: array_of(tensor) for name, tensor in tensors.items()}

    def _traced_again(self, args: tuple[Any, ...]) -> bool:
        """Trace the module for the sizes of a call; return whether it takes them."""
        found = None if self._retrace is None else self._retrace(args)
        self.traced = found or self.traced
        return found is not None

    def _check(self, arrays: Mapping[str, Array]) -> None:
        """Refuse tensors of other shapes than those of the trace."""
        for name, array in arrays.items():
            node = self.traced.graph[name]
            axes = self.traced.graph.attrs.get("onnx_order", {}).get(name, range(len(node.shape)))
            own = tuple(node.shape[list(axes).index(axis)] for axis in range(len(node.shape)))
            if self.traced.batched:
                fits, wanted = array.shape[1:] == own[1:], ["N", *own[1:]]
            else:
                fits, wanted = array.shape in (own, ()), list(own)
            if not fits:
                shown = ", ".join(map(str, wanted))
                raise messages.error(
                    SHAPE, f"input {name!r} has shape {list(array.shape)}, but must be [{shown}]"
                )


class CalibrationModel(QuantModel):
    """Computes what the float module computes, and remembers what it is called with."""

    def __init__(
        self,
        module: torch.nn.Module,
        traced: Traced,
        limit: int,
        seed: int,
        retrace: Retrace | None = None,
    ) -> None:
        super().__init__(module, traced, retrace)
        self._limit, self._seed = limit, seed
        self._others = 0
        self.reservoir = self._empty()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the float result.

        Samples of other sizes than those of the first call are not calibrated with, which is said.
        """
        if self.calls:
            arrays = self._arrays(args, kwargs)
            try:
                self._check(arrays)
            except VAIQError as error:
                return self._left_out(error, args, kwargs)
        arrays, _ = self.given(args, kwargs)
        order = self.traced.graph.attrs.get("onnx_order", {})
        batch = {}
        for name, array in arrays.items():
            own = array.transpose(order[name]) if name in order else array
            batch[name] = own.reshape(-1, *self._shape(name))
        self.reservoir.add(batch)
        with evaluating(self.module):
            return self.module(*args, **kwargs)

    def _traced_again(self, args: tuple[Any, ...]) -> bool:
        found = super()._traced_again(args)
        if found:
            self.restart().close()
        return found

    def _left_out(self, reason: VAIQError, args: Any, kwargs: Any) -> Any:
        """Return the float result of a call that is not calibrated with."""
        try:
            with evaluating(self.module):
                found = self.module(*args, **kwargs)
        except Exception:  # whatever the user's code raises of what does not fit
            raise reason from None
        if not self._others:
            messages.note(
                "calls of other sizes than the first one's are computed, but not calibrated with; "
                f"the first of them: {reason.text}"
            )
        self._others += 1
        return found

    def restart(self) -> Reservoir:
        """Begin anew; return what was seen so far."""
        found, self.reservoir = self.reservoir, self._empty()
        return found

    def _shape(self, name: str) -> tuple[int, ...]:
        shape = self.traced.graph[name].shape
        return shape[1:] if shape[0] == 1 else shape

    def _empty(self) -> Reservoir:
        heads = [node for node in self.traced.graph if node.kind == "data"]
        shapes = {node.name: (self._shape(node.name), node.type.dtype) for node in heads}
        return Reservoir(shapes, limit=self._limit, seed=self._seed)


class IntegerModel(QuantModel):
    """Computes what the compiled program computes, to the bit; results are real numbers.

    Parameters
    ----------
    module, traced
        As of :class:`QuantModel`.
    network
        Gives the quantized network when it is first needed.
    retrace
        As of :class:`QuantModel`; ``network`` gives that of the newest trace.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        traced: Traced,
        network: Callable[[], IntegerNetwork],
        retrace: Retrace | None = None,
    ) -> None:
        super().__init__(module, traced, retrace)
        self._network = network
        names = [name for name in traced.signature.inputs if name is not None]
        flat = len(names) == len(traced.signature.inputs)
        self._positional = len(names) if flat and traced.signature.is_flat(len(names)) else None
        self._key = traceable.key_of(self)
        self.last: dict[str, Array] = {}
        """Inputs of the last call, its first sample."""
        self._harmless: set[str] = set()
        """What differs from the trace, and changes no result."""

    @property
    def network(self) -> IntegerNetwork:
        """The quantized network."""
        return self._network()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the results, nested as those of the float module, where the inputs are."""
        if len(args) == self._positional and not kwargs and _is_traced(args):
            results = torch.ops.vai.integer_network(list(args), self._key)
            return self.traced.signature.nested(results)
        arrays, count = self.given(args, kwargs)
        self._check_numbers(args, kwargs)
        self.last = {
            name: np.array(array[:1] if count is not None else array)
            for name, array in arrays.items()
        }
        try:
            found = self._network().run(arrays, count)
        except TensorError as error:
            raise messages.error(SHAPE, str(error)) from error
        device = next(
            (leaf.device for leaf in (*args, *kwargs.values()) if isinstance(leaf, torch.Tensor)),
            torch.device("cpu"),
        )
        tensors = [torch.from_numpy(np.array(array, order="C")).to(device) for array in found]
        return self.traced.signature.nested(tensors)

    def _check_numbers(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse numbers, flags and the like that change the result, as the trace holds its own."""
        said = self.traced.signature.differing(args, kwargs)
        if not said or said in self._harmless:
            return
        own = self.traced.signature.as_traced(args, kwargs)
        with evaluating(self.module):
            results = [leaves_of(self.module(*a, **k)) for a, k in ((args, kwargs), own)]
        if not _are_equal(*results):
            raise messages.error(
                SHAPE, f"{said}, and the result depends on it: quantize the module for each"
            )
        self._harmless.add(said)


def _are_equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Tell whether the leaves of two results are the same."""
    return len(one) == len(other) and all(
        torch.equal(a, b) if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor) else a is b
        for a, b in zip(one, other, strict=True)
    )


def _is_traced(args: Sequence[Any]) -> bool:
    """Tell whether a call is one of a tracer's.

    The flag of ``torch.export`` is one of the process: with tensors that hold values, it is another
    thread that exports.
    """
    if torch.compiler.is_dynamo_compiling():
        return True
    plain = (torch.Tensor, torch.nn.Parameter)
    return torch.compiler.is_compiling() and any(type(one) not in plain for one in args)
