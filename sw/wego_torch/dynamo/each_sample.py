# SPDX-License-Identifier: Apache-2.0
"""Several samples through a graph that computes one, its DPU parts all at once."""

from collections.abc import Sequence
from typing import Any

import torch

from wego_torch.dynamo.part import DpuPart
from wego_torch.dynamo.samples import is_of_each, samples_in


class EachSample(torch.fx.Interpreter):
    """Computes a module for one sample with several: DPU parts take all of them at once.

    Values are lists with an element for each sample.
    """

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=True)
        self._count = 0

    def run_all(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Return the results, samples along the first axis again."""
        self._count = samples_in(tensors)
        results = self.run(
            *(
                [t if is_of_each(t, tensors) else t[i : i + 1] for i in range(self._count)]
                for t in tensors
            ),
            enable_io_processing=False,
        )
        leaves = [torch.utils._pytree.tree_flatten(one) for one in results]
        joined = [
            _joined(column) if isinstance(column[0], torch.Tensor) else column[0]
            for column in zip(*(flat for flat, _ in leaves), strict=True)
        ]
        flat = torch.utils._pytree.tree_unflatten(joined, leaves[0][1])
        return self.graph.process_outputs(flat)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Return the value of a node for every sample."""
        if n.op in ("placeholder", "get_attr"):
            found = super().run_node(n)
            return found if n.op == "placeholder" else [found] * self._count
        calls = [self._arguments(n, index) for index in range(self._count)]
        if n.op == "output":
            return [args[0] for args, _ in calls]
        if n.op == "call_module":
            part = self.fetch_attr(str(n.target))
            if isinstance(part, DpuPart):
                return part.run_all([args for args, _ in calls])
        run = getattr(self, n.op)
        return [run(n.target, args, kwargs) for args, kwargs in calls]

    def _arguments(self, node: torch.fx.Node, index: int) -> Any:
        def value(one: torch.fx.Node) -> Any:
            return self.env[one][index]

        return torch.fx.map_arg((node.args, node.kwargs), value)


def _joined(column: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return results of single samples as one; those without an axis for samples get it."""
    if len(column) == 1:
        return column[0]
    joined = torch.cat if column[0].shape[:1] == (1,) else torch.stack
    return joined(list(column))
