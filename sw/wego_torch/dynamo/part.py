# SPDX-License-Identifier: Apache-2.0
"""One part of a graph for the DPU: float while it is calibrated, then a compiled network."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from opendpu.frontend.pytorch import trace
from opendpu.frontend.pytorch.batch import array_of
from opendpu.frontend.requantizing import Requantize
from opendpu.ir import Array, FloatGraph
from wego_torch import messages
from wego_torch.build import compiled, quantized
from wego_torch.dynamo.options import Options
from wego_torch.network import Network


class DpuPart(torch.nn.Module):
    """A part of a graph.

    Parameters
    ----------
    module
        Computes it in float.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module
        self.network: Network | None = None
        self._seen: list[tuple[torch.Tensor, ...]] = []
        self._is_float = False
        """Whether it stays in PyTorch after all."""
        self._several = False
        self._nested: Callable[[Sequence[torch.Tensor]], Any] | None = None

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Return the results of one evaluation."""
        if self._is_float:
            return self.module(*inputs)
        if self.network is None:
            self._seen.append(tuple(tensor.detach().clone() for tensor in inputs))
            return self.module(*inputs)
        assert self._nested is not None
        return self._nested(self.network.run(inputs))

    def not_finite(self) -> set[str]:
        """Return the operators that took or gave what is not finite, such as a mask of attention.

        Only those are found that this has reached from the part's inputs: a scale has to hold what
        the DPU is given, while of what comes up inside, the quantizer knows.
        """
        found: set[str] = set()
        for call in self._seen:
            if not all(map(_is_finite, call)):
                seeker = _NotFinite(self.module)
                seeker.run(*call, enable_io_processing=False)
                found |= seeker.found
        return found

    def run_all(self, calls: Sequence[Sequence[torch.Tensor]]) -> list[Any]:
        """Return the results of several evaluations, which the DPU computes together."""
        alone = len(calls) == 1  # results may be without an axis for samples
        if self.network is None or self._nested is None or not self._several or alone:
            return [self(*inputs) for inputs in calls]
        columns = [torch.cat(column) for column in zip(*calls, strict=True)]
        found = [
            [t[i : i + 1] if self.network.has_batch(index) else t[i] for i in range(len(calls))]
            for index, t in enumerate(self.network.run(columns))
        ]
        return [self._nested(row) for row in zip(*found, strict=True)]

    def compile(self, options: Options, show: Callable[[str], None]) -> None:  # type: ignore[override]
        """Quantize the part with what it has seen, and compile it.

        It stays in PyTorch where nothing of it is on the DPU by itself, such as a reshape that came
        with its neighbours.

        Raises
        ------
        UnsupportedError
            The part cannot be converted after all.
        """
        show("torch.compile: converting a part")
        traced = trace(self.module, self._seen[0], requantize=Requantize.DATA)
        names = [name for name in traced.signature.inputs if name is not None]
        data = _stacked(traced.graph, names, self._seen)
        graph = quantized(traced.graph, data, options.quantize_config(), show)
        artefact = compiled(
            graph, names, options.compile_options(), batched=traced.batched, show=show
        )
        self._seen.clear()
        parts = [part for part in artefact.report["subgraphs"] if part["device"] == "DPU"]
        if parts:
            self.network = Network(artefact)
            self._nested, self._several = traced.signature.nested, traced.batched
        self._is_float = not parts
        messages.LOG.info("%d operators on the DPU", sum(len(part["ops"]) for part in parts))
        for name, why in artefact.report["on_cpu"].items():
            messages.LOG.info("on the CPU: %s: %s", name, why)


class _NotFinite(torch.fx.Interpreter):
    """Computes a module, and remembers which operators took or gave what is not finite."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__(module)
        self.found: set[str] = set()

    def run_node(self, n: torch.fx.Node) -> Any:
        """Return the value of an operator."""
        value = super().run_node(n)
        given = [self.env[source] for source in n.all_input_nodes if source in self.env]
        if n.op == "call_function" and not all(map(_is_finite, (value, *given))):
            self.found.add(n.name)
        return value


def _is_finite(value: Any) -> bool:
    leaves = torch.utils._pytree.tree_leaves(value)
    return all(
        bool(torch.isfinite(x).all())
        for x in leaves
        if isinstance(x, torch.Tensor) and x.is_floating_point()
    )


def float_part(module: torch.fx.GraphModule, name: str) -> torch.fx.GraphModule:
    """Return a submodule that the partitioner has made."""
    found = module.get_submodule(name)
    assert isinstance(found, torch.fx.GraphModule)
    return found


def _stacked(
    graph: FloatGraph, names: Sequence[str], calls: Sequence[Sequence[torch.Tensor]]
) -> dict[str, Array]:
    """Return what a part was called with, by input, as the quantizer takes it."""
    orders: Mapping[str, Sequence[int]] = graph.attrs.get("onnx_order", {})
    found = {}
    for position, name in enumerate(names):
        node, order = graph[name], orders.get(name)
        shape = node.shape[1:] if node.shape[:1] == (1,) else node.shape
        arrays = [array_of(call[position]) for call in calls]
        arranged = [array if order is None else array.transpose(order) for array in arrays]
        found[name] = np.concatenate([array.reshape(-1, *shape) for array in arranged])
    return found
