# SPDX-License-Identifier: Apache-2.0
"""Compiled networks that run: tensors of PyTorch in and out, jobs of the DPU in between."""

import collections
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from opendpu.frontend.pytorch.batch import array_of, stacked
from opendpu.ir import Array
from opendpu.runtime import GraphRunner
from opendpu.runtime.arrays import is_quantized
from opendpu.runtime.batch import run_batch
from opendpu_arch.errors import DPUError, UnsupportedError
from wego_torch import messages
from wego_torch.artefact import Artefact
from wego_torch.build import loaded
from wego_torch.target import chosen_device

REMEMBERED = 64
"""Calls whose times are kept."""

alive: "weakref.WeakSet[Network]" = weakref.WeakSet()
"""The networks of this process."""


class Network:
    """A compiled network on a device; calls may come from several threads.

    Parameters
    ----------
    artefact
        The network.

    Raises
    ------
    UnsupportedError
        There is no such device.
    """

    def __init__(self, artefact: Artefact) -> None:
        self.artefact = artefact
        self.device = chosen_device(artefact.device or None)
        self.graph = loaded(artefact.model)
        cores: dict[str, Any] = {"cores": artefact.cores} if artefact.cores else {}
        self._runner = GraphRunner(
            self.graph, device=self.device, workers=artefact.workers or None, **cores
        )
        alive.add(self)
        self._inputs = {tensor.name: tensor for tensor in self._runner.get_input_tensors()}
        self._outputs = {tensor.name: tensor for tensor in self._runner.get_output_tensors()}
        self._lock = threading.Lock()
        self.calls = 0
        self.statistics: collections.deque[dict[str, Any]] = collections.deque(maxlen=REMEMBERED)
        """What each part took in the last jobs, by name: the newest last."""
        self.seconds: collections.deque[tuple[int, float]] = collections.deque(maxlen=REMEMBERED)
        """Samples and time of the last calls."""

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the outputs for inputs in order, in the layout of the user's model.

        Raises
        ------
        WegoError
            Inputs are too few or too many, or have a wrong shape; or the device failed.
        UnsupportedError
            An input requires gradients, which no DPU computes.
        """
        self._check(inputs)
        inputs = [tensor if tensor.ndim else tensor.reshape(1) for tensor in inputs]
        start = time.perf_counter()
        given = {
            name: self._arranged(name, array_of(tensor))
            for name, tensor in zip(self.artefact.inputs, inputs, strict=True)
            if name in self._inputs  # not what the network takes, and does without
        }
        count = len(inputs[0]) if self.artefact.batched else 1
        if count:
            try:
                results, statistics = run_batch(self._runner, given, floats=True)
            except DPUError as error:
                raise messages.error("WEGO_TORCH_RUNTIME_ERROR", str(error)) from error
        else:
            results, statistics = self._nothing(), []
        with self._lock:
            self.calls += 1
            self.statistics.extend(statistics)
            self.seconds.append((count, time.perf_counter() - start))
        if self.artefact.debug:
            from wego_torch.debug import dump

            dump(self.graph, given, self.device)
        return [self._returned(name, results, inputs[0], count) for name in self.artefact.outputs]

    def close(self) -> None:
        """Finish every job and free the device."""
        self._runner.close()

    def _check(self, inputs: Sequence[torch.Tensor]) -> None:
        names = self.artefact.inputs
        if len(inputs) != len(names):
            raise messages.error(
                "WEGO_TORCH_INVALID_ARGUMENT",
                f"{len(inputs)} inputs given, but must be {len(names)}: {', '.join(names)}",
            )
        refuse_gradients(inputs)
        counts = set()
        for name, tensor in zip(names, inputs, strict=True):
            if name not in self._inputs:
                continue
            wanted = self.shape(name)
            own = tuple(tensor.shape) or (1,)  # a network has no tensor without axes
            free = self.artefact.batched
            if (own[1:] != wanted[1:] or len(own) != len(wanted)) if free else own != wanted:
                shown = ["N", *wanted[1:]] if free else list(wanted)
                raise messages.error(
                    "WEGO_TORCH_INVALID_ARGUMENT",
                    f"input {name!r} has shape {list(own)}, but the module was compiled for "
                    f"[{', '.join(map(str, shown))}]; compile it again for another size",
                )
            counts.add(own[0] if free else 1)
        if len(counts) > 1:
            raise messages.error(
                "WEGO_TORCH_INVALID_ARGUMENT", f"inputs hold {sorted(counts)} samples"
            )

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an input as the user's model has it."""
        return self._shape_of(name, self._inputs[name].dims)

    def _arranged(self, name: str, array: Array) -> Array:
        order, tensor = self.artefact.orders.get(name), self._inputs[name]
        if order is not None:
            array = array.transpose(order)
        dtype = tensor.data_type.numpy()
        wanted = np.float32 if is_quantized(tensor) else dtype
        return np.ascontiguousarray(array, dtype=wanted)

    def has_batch(self, index: int) -> bool:
        """Tell whether an output has an axis for the samples, and that for one of them too."""
        name = self.artefact.outputs[index]
        own = self._shape_of(name, self._outputs[name].dims)
        return own[:1] == (1,) and name not in self.artefact.scalars

    def _shape_of(self, name: str, dims: Sequence[int]) -> tuple[int, ...]:
        """Return sizes as the user's model has them."""
        order = self.artefact.orders.get(name, range(len(dims)))
        return tuple(dims[list(order).index(axis)] for axis in range(len(dims)))

    def _returned(
        self, name: str, results: dict[str, Array], like: torch.Tensor, count: int
    ) -> torch.Tensor:
        order, array = self.artefact.orders.get(name), results[name]
        if order is not None:
            array = array.transpose(np.argsort(order))
        array = stacked(array, self._shape_of(name, self._outputs[name].dims), count)
        if name in self.artefact.scalars and array.size == 1:
            return torch.from_numpy(array.reshape(())).to(like.device)
        return torch.from_numpy(np.ascontiguousarray(array)).to(like.device)

    def _nothing(self) -> dict[str, Array]:
        """Return the outputs for no sample."""
        return {
            name: np.empty(
                (0, *(tensor.dims[1:] if tuple(tensor.dims[:1]) == (1,) else tensor.dims)),
                np.float32,
            )
            for name, tensor in self._outputs.items()
        }


def refuse_gradients(inputs: Sequence[torch.Tensor]) -> None:
    """Raise UnsupportedError if an input requires gradients and somebody would compute them."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        raise UnsupportedError(
            "an input requires gradients, but the DPU computes none: call the module within "
            "torch.no_grad(), or train the float module"
        )
