# SPDX-License-Identifier: Apache-2.0
"""A module traced for the user's sizes, quantized, and what calibration has written of it."""

import dataclasses
import pathlib
from typing import Any

import torch

from opendpu.cli.progress import progress
from opendpu.frontend.pytorch import Traced, trace
from opendpu.ir import QuantizedGraph
from opendpu.quantize import FinetuneConfig, QuantizeConfig, quantize_with_report
from opendpu_arch.target import Target
from pytorch_nndct import messages, result
from pytorch_nndct.calibration import Reservoir
from pytorch_nndct.guard import as_the_guide_says
from pytorch_nndct.layer_names import layer_names, resolved
from pytorch_nndct.messages import VAIQError
from pytorch_nndct.other_sizes import resized
from pytorch_nndct.program import IntegerNetwork
from pytorch_nndct.remarks import replaced
from pytorch_nndct.settings import on_device, with_float_parts

Sizes = tuple[tuple[int, ...], ...]
"""Shapes of tensors."""

MOST_SIZES = 8
"""Traces of other sizes that are kept."""

OF_SIZES = ("traced", "names", "config", "tuned", "_result", "_unread", "_network")
"""What a :class:`TracedModule` has of each sizes."""


def sizes_of(inputs: Any) -> Sizes:
    """Return the shapes of all tensors of a call."""
    leaves = torch.utils._pytree.tree_leaves(inputs)
    return tuple(tuple(leaf.shape) for leaf in leaves if isinstance(leaf, torch.Tensor))


class TracedModule:
    """What follows from a trace of a float module: its graph, names, configuration, results.

    Parameters
    ----------
    module
        The float module, on ``device``.
    inputs
        What it is traced with.
    folder
        Where results of calibration are.
    asked
        Configuration, by the user's names of layers.
    device
        Where the module is computed.
    reads
        Whether results of calibration are read, for every trace: in mode ``test``.

    Attributes
    ----------
    name
        Of the module's class.
    traced
        The trace.
    names
        Names of layers in results, by node.
    config
        Configuration of this trace.
    tuned
        The finetuned network, once there is one.

    Raises
    ------
    VAIQError
        The module cannot be traced, or there are no results of calibration for it.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        inputs: Any,
        *,
        folder: pathlib.Path,
        asked: QuantizeConfig,
        device: torch.device,
        reads: bool,
    ) -> None:
        self.name = type(module).__name__
        self._module, self._device = module, device
        self._folder, self._asked, self._reads = folder, asked, reads
        self.tuned: QuantizedGraph | None = None
        self._result: result.Result | None = None
        self._unread: VAIQError | None = None
        self._network: IntegerNetwork | None = None
        self._takes_tuned = False
        self._others: dict[Sizes, dict[str, Any]] = {}
        self._sizes = sizes_of(inputs)
        self._take(self._trace(inputs))

    def retrace(self, inputs: tuple[Any, ...]) -> Traced | None:
        """Return the trace for sizes that the module is called with, not those of the examples.

        A fully convolutional module takes any, and scripts calibrate with others. Nothing, if it
        does not take these, or, once it was called, calibration's results cannot be made for them;
        then everything is as before. The traces of a few sizes stay for further calls.
        """
        sizes, before = sizes_of(inputs), {name: self.__dict__[name] for name in OF_SIZES}
        known = self._others.pop(sizes, None)
        if known is not None:
            self.__dict__.update(known)
        else:
            try:
                traced = self._trace(inputs)
            except VAIQError:
                return None
            self._take(traced)
            if self._takes_tuned:
                self._read_tuned()
            if self._reads and self._unread is not None and before["_unread"] is None:
                self.__dict__.update(before)
                return None
        if before["_unread"] is None:
            self._others[self._sizes] = before
            for oldest in list(self._others)[:-MOST_SIZES]:
                del self._others[oldest]
        self._sizes = sizes
        return self.traced

    def quantized(
        self, seen: Reservoir, finetuning: FinetuneConfig | None = None
    ) -> QuantizedGraph:
        """Return the network quantized, and finetuned if that is asked for."""
        config = dataclasses.replace(self.config, finetune=finetuning)
        with as_the_guide_says(), progress(f"calibrating {self.name}") as show:
            found = quantize_with_report(self.traced.graph, seen.samples(), config, show=show)
        if found.report is not None:
            replaced(self.traced.graph, config, found.report.substituted)
            for line in found.report.lines():
                messages.note(line)
        return found.graph

    def as_result(self, graph: QuantizedGraph) -> result.Result:
        """Return a quantized network as it is written."""
        float_graph = self.traced.graph
        return result.Result(
            graph, result.structure_of(float_graph), result.weights_of(float_graph),
            finetuned=self.tuned is not None, bias_corrected=self.config.bias_correction,
        )  # fmt: skip

    def take_tuned(self) -> None:
        """Take the finetuned parameters that mode ``calib`` has written.

        Raises
        ------
        VAIQError
            There are none, or of another module.
        """
        self._takes_tuned = True
        self._others.clear()
        self._read_tuned()

    def _read_tuned(self) -> None:
        self._network = None
        if self._unread is None:  # otherwise, when the first call has told the sizes
            self.tuned = result.read_parameters(self._folder, self.traced.graph, self._resized)

    def network(self) -> IntegerNetwork:
        """Return the network of test mode.

        Raises
        ------
        VAIQError
            Results of calibration are of another module, or of sizes that cannot be changed.
        """
        if self._network is None:
            if self._result is None:
                assert self._unread is not None
                raise self._unread
            if self._result.finetuned and self.tuned is None:
                messages.warn(
                    "QUANTIZER_TORCH_FAST_FINETUNE",
                    f"{self._folder / result.INFO} is of a finetuned network and load_ft_param was "
                    f"not called; the parameters in {self._folder / self.name}.pth are used",
                )
            graph = self.tuned or self._result.graph
            target: Target | None = self.config.target
            self._network = IntegerNetwork(graph, target)
        return self._network

    def _trace(self, inputs: Any) -> Traced:
        messages.note(f"tracing {self.name}")
        with as_the_guide_says(), progress(f"tracing {self.name}"):
            return trace(self._module, on_device(inputs, self._device))

    def _take(self, traced: Traced) -> None:
        """Take what follows from a trace."""
        self.traced = traced
        places = {n: p for n, p in traced.places.items() if n in traced.graph.nodes}
        self.names = layer_names(self.name, places)
        self.config = resolved(with_float_parts(self._asked, traced), self.names)
        if self._reads:
            self._read()

    def _read(self) -> None:
        """Read what calibration found; where that was of other sizes, the first call decides."""
        self._result = self._unread = self._network = self.tuned = None
        graph = self.traced.graph
        try:
            self._result = result.read(self._folder, self.name, graph, resize=self._resized)
        except VAIQError as error:
            if error.code != result.MISMATCH:
                raise
            if result.input_shapes(self._folder, self.name) == result.shapes_of(graph):
                raise
            self._unread = error

    def _resized(self, calibrated: QuantizedGraph) -> QuantizedGraph | None:
        """Return a calibrated network for the sizes of this trace; nothing if it is another one."""
        return resized(calibrated, self.traced.graph, self.config)
