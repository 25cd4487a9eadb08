# SPDX-License-Identifier: Apache-2.0
"""What of a float graph is quantized, and how: all decisions of placement in their order."""

import dataclasses
from collections.abc import Mapping, Sequence

from opendpu.ir import Graph, Node
from opendpu.ops.functions import Function
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.placement.groups import Demands, ScaleGroups, find_groups
from opendpu.quantize.placement.scope import floating_ops
from opendpu.quantize.placement.specs import TensorSpecs, kept_float, specify
from opendpu.quantize.placement.tables import tabulated

LEAVES = (
    "its result leaves the DPU, so that the CPU computes it in float, which loses nothing; an op "
    "of the DPU that reads it would lift it"
)
FED = "its argument is made by the CPU; that on the DPU would lift it"


@dataclasses.dataclass(frozen=True)
class Placement:
    """Where a float graph gets ``fix`` ops.

    Parameters
    ----------
    floating
        The ops that stay in float, with the reason where it is not the compiler's.
    groups
        The tensors that are quantized.
    specs
        How.
    """

    floating: Mapping[str, str]
    groups: ScaleGroups
    specs: TensorSpecs


def place(
    graph: Graph,
    config: QuantizeConfig,
    demands: Demands | None = None,
    precise: Mapping[str, str] | None = None,
) -> Placement:
    """Decide for a folded graph what is quantized, and how.

    Some ops have further ``demands``; ``precise`` ones stay in float, for the reasons given.
    """
    kept, users = {**(precise or {}), **kept_float(graph, config)}, graph.consumer_map()
    if demands is not None:
        kept |= {name: why for name, why in demands.floating.items() if name in graph.nodes}
    every = found = tabulated(graph, config.target)
    while True:
        inside = {name for function in found for name in function.nodes}
        floating = floating_ops(graph, kept, inside, join_outputs=config.join_outputs)
        left = [function for function in found if _is_on_dpu(function, floating, users)]
        if len(left) == len(found):
            break
        found = left
    for function in every:
        why = FED if function.root in floating else LEAVES
        if function not in found:
            floating |= {name: why for name in function.nodes if floating.get(name) == ""}
    groups, specs = specify(graph, find_groups(graph, floating, found, demands), floating, config)
    return Placement(floating, groups, specs)


def _is_on_dpu(
    function: Function, floating: Mapping[str, str], users: Mapping[str, Sequence[Node]]
) -> bool:
    """Return whether the DPU makes the argument of a function, and reads what it gives.

    Else the CPU computes it in float, which loses nothing.
    """
    if any(name in floating for name in (function.root, *function.nodes)):
        return False
    return any(user.name not in floating for user in users[function.end])
