# SPDX-License-Identifier: Apache-2.0
"""What pruning makes less of: multiply-accumulates, parameters, or the cycles of a target."""

import math
from typing import Any

from torch import nn

from opendpu.optimize.cycles import Cycles
from opendpu.optimize.layers import Shapes, Widths, layers_of
from opendpu.optimize.surgery import removed_axes
from opendpu.pruning.arguments import one_of
from opendpu.pruning.objective import Objective
from opendpu.pruning.structure import Dependencies
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target

OBJECTIVES = ("macs", "params", "cycles")
"""Names of objectives."""


class Macs:
    """Multiply-accumulates of one sample."""

    name = "macs"

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes

    def cost(self, widths: Widths) -> float:
        """Return the multiply-accumulates."""
        return float(sum(layer.macs for layer in self.shapes.at(widths).values()))

    def exact(self, widths: Widths) -> int:
        """Return the multiply-accumulates."""
        return round(self.cost(widths))


class Params:
    """Parameters, those of normalizations too."""

    name = "params"

    def __init__(self, model: nn.Module, dependencies: Dependencies) -> None:
        self.sizes = {name: tuple(value.shape) for name, value in model.named_parameters()}
        self.dependencies = dependencies
        self._gone: dict[str, dict[str, dict[int, float]]] = {}
        for name, group in dependencies.groups.items():
            axes = removed_axes(model, dependencies, {name: range(group.units)})
            self._gone[name] = {
                key: {axis: len(indices) / group.units for axis, indices in found.items()}
                for key, found in axes.items()
                if key in self.sizes
            }

    def cost(self, widths: Widths) -> float:
        """Return the number of parameters."""
        sizes = {name: list(shape) for name, shape in self.sizes.items()}
        removed: dict[tuple[str, int], float] = {}
        for name, kept in widths.items():
            gone = self.dependencies.groups[name].units - kept
            for key, axes in self._gone[name].items():
                for axis, each in axes.items():
                    removed[key, axis] = removed.get((key, axis), 0.0) + gone * each
        for (key, axis), count in removed.items():
            sizes[key][axis] -= round(count)
        return float(sum(math.prod(shape) for shape in sizes.values()))

    def exact(self, widths: Widths) -> int:
        """Return the number of parameters."""
        return round(self.cost(widths))


def objective_of(
    name: str,
    model: nn.Module,
    inputs: Any,
    dependencies: Dependencies,
    target: Target | str | None = None,
) -> Objective:
    """Return the objective with a name.

    Parameters
    ----------
    name
        ``macs``, ``params`` or ``cycles``.
    model, inputs
        The network before pruning, and what it is called with.
    dependencies
        Its groups.
    target
        The DPU whose cycles are meant.

    Raises
    ------
    UnsupportedError
        There is no such objective, or cycles are asked for without a target.
    """
    one_of("objective", name, OBJECTIVES)
    if name == "params":
        return Params(model, dependencies)
    shapes = Shapes(dependencies, layers_of(model, inputs))
    if name == "macs":
        return Macs(shapes)
    if target is None:
        raise UnsupportedError(
            "objective 'cycles' needs a target: say which DPU (target='B4096')",
            code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
        )
    chosen = Target.from_name(target) if isinstance(target, str) else target
    return Cycles(model, inputs, shapes, chosen)
