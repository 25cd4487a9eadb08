# SPDX-License-Identifier: Apache-2.0
"""Which operators of an exported program go to the DPU: parts of them as submodules."""

import operator
import re
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence

import torch
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.onnx._internal.exporter import _decomp

from opendpu.frontend.pytorch import Traced
from opendpu.frontend.pytorch.model import program_traced
from opendpu.frontend.pytorch.torchlib import registry
from opendpu.frontend.requantizing import Requantize
from opendpu.inspect import inspect_graph
from opendpu.inspect.result import CPU, DPU
from opendpu_arch.target import Target
from wego_torch.dynamo.mutation import written_values

PART = "fused_"
"""How names of submodules begin that PyTorch's partitioner makes."""


NOTHING = "nothing of the graph is for the DPU"
"""Why an operator is not there that could be."""

_FAILED_AT = re.compile(r"Error when translating node %(\w+) ")
"""How PyTorch's exporter names the operator that it could not convert."""


class _Named(OperatorSupportBase):
    """Operators with certain names."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    def is_node_supported(
        self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node
    ) -> bool:
        return node.name in self._names


def decomposed(program: ExportedProgram) -> ExportedProgram:
    """Return a program with the operators that PyTorch's ONNX exporter will look for."""
    known = set(_decomp.get_onnx_implemented_overloads(registry()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PyTorch says of its own parts
        return program.run_decompositions(_decomp.create_onnx_friendly_decomposition_table(known))


def unknown_operators(program: ExportedProgram) -> dict[str, str]:
    """Return the operators that have no ONNX counterpart, by node, of a decomposed program."""
    known, found = registry(), {}
    for node in program.graph.nodes:
        called = node.target if node.op == "call_function" else None
        if isinstance(called, torch._ops.OpOverload) and not known.is_registered(called):
            found[node.name] = str(called)
    return found


def untranslated(program: ExportedProgram, error: BaseException) -> dict[str, str]:
    """Return the operator of a decomposed program at which its conversion to ONNX has failed.

    There is none if the exporter does not name it.
    """
    cause: BaseException | None = error
    while cause is not None:
        named = _FAILED_AT.search(str(cause))
        for node in _calls(program.graph) if named else ():
            if named and node.name == named[1]:
                return {node.name: str(node.target)}
        cause = cause.__cause__
    return {}


def complex_operators(program: ExportedProgram) -> dict[str, str]:
    """Return the operators that take or give complex numbers, which ONNX has as pairs of others."""

    def is_complex(node: torch.fx.Node) -> bool:
        value = node.meta.get("val")
        return isinstance(value, torch.Tensor) and value.is_complex()

    return {
        node.name: f"{node.target} is of complex numbers"
        for node in _calls(program.graph)
        if is_complex(node) or any(map(is_complex, node.all_input_nodes))
    }


def on_cpu(program: ExportedProgram, target: Target) -> dict[str, str]:
    """Return the operators of a program that the DPU cannot have, with reasons.

    What rounds to the scales of PyTorch's own quantizer is no reason: samples give others.

    Raises
    ------
    UnsupportedError
        The program holds what cannot be converted.
    """
    traced: Traced = program_traced(program, requantize=Requantize.DATA)
    found = inspect_graph(traced.graph, target)
    reasons: dict[str, str] = {}
    places = {name: place.op for name, place in traced.places.items()}
    for node in found.on(CPU):
        if node.name in places:
            reasons[places[node.name]] = node.message
    if not found.on(DPU):
        return {n.name: reasons.get(n.name, NOTHING) for n in _calls(program.graph)}
    return reasons


def split(
    module: torch.fx.GraphModule, elsewhere: Collection[str], wanted: Callable[[str], bool]
) -> torch.fx.GraphModule:
    """Return a module in which operators that are not ``elsewhere`` are submodules.

    Parameters
    ----------
    module
        With ATen's operators.
    elsewhere
        Operators that stay as they are.
    wanted
        Whether a part with certain operators, by name, is worth it.
    """
    exact = written_values(module.graph) | _of_numbers(module.graph) | set(elsewhere)
    names = {node.name for node in _calls(module.graph)} - exact
    partitioner = CapabilityBasedPartitioner(
        module, _Named(names), allows_single_node_partition=True
    )
    parts = [
        part for part in partitioner.propose_partitions()
        if any(wanted(node.name) for node in part.nodes)
    ]  # fmt: skip
    made = partitioner.fuse_partitions(parts, prefix=PART)
    for node in list(made.graph.nodes):
        if node.op == "call_module" and str(node.target).startswith(PART):
            _bind_constants(made, node)
    made.recompile()
    return made


def _of_numbers(graph: torch.fx.Graph) -> set[str]:
    """Return the operators that make a number of Python out of a tensor, and those that take it.

    A part has tensors only: it would take the number of its first call for a constant.
    """
    kinds = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
    made = [node for node in _calls(graph) if isinstance(node.meta.get("val"), kinds)]
    return {one.name for node in made for one in (node, *node.users)}


def _bind_constants(module: torch.fx.GraphModule, call: torch.fx.Node) -> None:
    """Give a submodule the parameters that PyTorch's partitioner has made arguments of it."""
    part = module.get_submodule(str(call.target))
    assert isinstance(part, torch.fx.GraphModule)
    heads = [node for node in part.graph.nodes if node.op == "placeholder"]
    kept = []
    for head, argument in zip(heads, call.args, strict=True):
        if not isinstance(argument, torch.fx.Node) or argument.op != "get_attr":
            kept.append(argument)
            continue
        value = operator.attrgetter(str(argument.target))(module)
        name = f"constant_{head.name}"
        part.register_buffer(name, value.detach())
        with part.graph.inserting_before(head):
            head.replace_all_uses_with(part.graph.get_attr(name))
        part.graph.erase_node(head)
    call.args = tuple(kept)
    part.recompile()


def _calls(graph: torch.fx.Graph) -> Sequence[torch.fx.Node]:
    return [node for node in graph.nodes if node.op == "call_function"]
