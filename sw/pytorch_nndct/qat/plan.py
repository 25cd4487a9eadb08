# SPDX-License-Identifier: Apache-2.0
"""Where in a module something is rounded: as the engine decides for its graph."""

import dataclasses
from collections.abc import Iterator, Mapping

import numpy as np

from opendpu.frontend.pytorch import Traced
from opendpu.frontend.pytorch.naming import Place
from opendpu.ir import Array, FloatGraph, Graph, Node, QuantizedGraph
from opendpu.ops import operator_of
from opendpu.quantize import QuantizeConfig, quantize_with_report
from opendpu.quantize.layers import is_layer
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.placement.insert import insert
from opendpu.quantize.placement.place import place
from opendpu.quantize.placement.specs import TensorSpecs
from opendpu.quantize.scales.shifts import make_legal
from opendpu.quantize.scales.template import template_of
from pytorch_nndct import messages

FUNCTIONAL = "pytorch_nndct.nn.modules.functional."
"""Where our modules for operators are."""

LEAKY = "LeakyReLU"
"""PyTorch's name of a module whose slope the DPU rounds."""

GATE, HARD_SWISH = "hard-sigmoid", "Hardswish"
"""What a hard-swish is multiplied with, and PyTorch's name of its module."""

SAME_WEIGHTS = 0.25
"""Largest difference, by the root of the sum of squares, of weights that were only rounded or
finetuned; where channels were equalized by so little, scales fit as well."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is rounded in a module.

    Parameters
    ----------
    norms
        By path of a layer's module, that of the batch normalization behind it, or nothing.
    nodes
        Names of layers in the graph, by path of the module.
    results
        Group by path of the module whose result is rounded, QuantStubs among them.
    gates
        Group by path of a Hardswish: of the hard-sigmoid that its input is multiplied with, which
        the DPU rounds too.
    slopes
        By path of a LeakyReLU, its slope on the DPU.
    same
        Groups that have the scale of another one, because a module is called several times.
    reference, groups, specs
        The engine's: transformed float graph, tensors of one scale, how each is quantized.
    """

    norms: Mapping[str, str | None]
    nodes: Mapping[str, str]
    results: Mapping[str, str]
    gates: Mapping[str, str]
    slopes: Mapping[str, float]
    same: Mapping[str, str]
    reference: FloatGraph
    groups: ScaleGroups
    specs: TensorSpecs

    def is_equalized(self, layer: str, calibrated: QuantizedGraph) -> bool:
        """Return whether the channels of a layer were scaled in a calibrated graph."""
        own, other = (
            np.asarray(_constant(graph, layer).value, np.float64)
            for graph in (self.reference, calibrated)
        )
        return bool(np.linalg.norm(other - own) > SAME_WEIGHTS * np.linalg.norm(own))

    def groups_around(self, layer: str) -> set[str]:
        """Return the groups of a layer's input and result; not those of the network's inputs."""
        found, waiting = set(), [layer]
        before = self.reference[layer].inputs["input"][0]
        while before not in self.groups.group and self.reference[before].inputs:
            before = self.reference[before].sources()[0]
        if before in self.groups.group and self.reference[before].kind != "data":
            found.add(self.groups.group[before])
        while waiting:
            name = waiting.pop()
            if name in self.groups.group:
                found.add(self.groups.group[name])
            else:
                waiting += [node.name for node in self.reference.consumers(name)]
        return found

    def quantized(self, results: Mapping[str, int], weights: Mapping[str, int]) -> QuantizedGraph:
        """Return the graph with these fractional bits: of groups, and of layers by path.

        Where the DPU's shifts cannot hold them, they are lowered.
        """
        chosen = {
            name: results[self.same.get(group, group)] for name, group in self.groups.group.items()
        }
        by_layer = {
            name: template_of(self.specs.weights[name]).at(point)
            for name, point in ((self.nodes[path], point) for path, point in weights.items())
        }
        rounded = {name: r for name, r in self.groups.results.items() if name in by_layer}
        groups = dataclasses.replace(self.groups, results=rounded)
        constants = make_legal(self.reference, groups, chosen, by_layer, self.specs.bias)
        templates = self.specs.templates()
        results_of = {name: templates[name].at(point) for name, point in chosen.items()}
        return insert(self.reference, results_of | constants)


def plan_of(
    traced: Traced, samples: Mapping[str, Array], config: QuantizeConfig, *, reused: bool
) -> Plan:
    """Return where a traced module is rounded.

    Parameters
    ----------
    samples
        A few, of any values.
    config
        Without corrections, which training does instead.
    reused
        Whether a module may be called several times; its result then has one scale.

    Raises
    ------
    VAIQError
        There is no QuantStub, an operation to be rounded is no module, or one is called twice.
    """
    if not traced.floating.begins:
        raise messages.error(
            "QUANTIZER_TORCH_INPUT_NOT_QUANTIZED",
            "the module calls no QuantStub: say with QuantStub and DeQuantStub what is quantized",
        )
    reference = quantize_with_report(traced.graph, samples, config, measured=False).reference
    assert reference is not None
    placement = place(reference, config)
    groups, specs = placement.groups, placement.specs
    layers = [n.name for n in reference if is_layer(n) and n.name in specs.weights]
    calls = [(stub, source) for stub, source in traced.floating.begins.items()]
    calls += [(n, n) for n in groups.names if _is_module(traced.places.get(n))]
    modules = [name for name in layers if _is_module(traced.places.get(name))]
    _check_calls(traced, [*(call for call, _ in calls), *modules], reused=reused)
    results: dict[str, str] = {}
    same: dict[str, str] = {}
    for call, source in calls:
        group = groups.group.get(source)
        if group is not None:
            first = results.setdefault(traced.places[call].path, group)
            if first != group:
                same[group] = first
    gates: dict[str, str] = {}
    for path, group in _gates(traced, reference, groups):
        first = gates.setdefault(path, group)
        if first != group:
            same[group] = first
    placed = {*results.values(), *gates.values(), *same}
    names = {node.name for node in reference}
    found = _behind_moves(reference, groups, placed)
    unnamed = [stub for stub, source in traced.floating.begins.items() if source not in names]
    if len(found) == len(unnamed):
        results |= {traced.places[stub].path: g for stub, g in zip(unnamed, found, strict=True)}
    _check_placed(traced, reference, groups, placed | set(results.values()))
    paths = {traced.places[name].path: name for name in layers}
    norms = {path: _norm_behind(traced, name) for path, name in paths.items()}
    slopes = {
        traced.places[node.name].path: float(node.attrs["alpha"])
        for node in reference
        if node.kind == "leaky-relu" and node.name not in placement.floating
        and node.name in traced.places and traced.places[node.name].builtin == LEAKY
    }  # fmt: skip
    return Plan(norms, paths, results, gates, slopes, same, reference, groups, specs)


def _gates(traced: Traced, reference: Graph, groups: ScaleGroups) -> Iterator[tuple[str, str]]:
    """Yield path and group of the gates of modules that the engine takes apart: of hard-swish."""
    for group, members in groups.members.items():
        gate = reference[members[0]]
        if gate.kind != GATE or gate.name in traced.places:
            continue
        users = reference.consumers(gate.name)
        place = traced.places.get(users[0].name) if len(users) == 1 else None
        if place is not None and place.builtin == HARD_SWISH:
            yield place.path, group


def _behind_moves(reference: Graph, groups: ScaleGroups, placed: set[str]) -> list[str]:
    """Return groups that no module rounds, of what only changes the shape of something.

    A stub behind a change of shape (``x[:, :, None, None]``) marks one of these: the graph joins
    such changes, and the name that the stub knows is gone.
    """
    return [
        group for group, members in groups.members.items()
        if group not in placed and _changes_shape(reference[members[0]])
    ]  # fmt: skip


def _changes_shape(node: Node) -> bool:
    return bool(node.inputs) and operator_of(node).moves(node)


def _constant(graph: Graph, layer: str) -> Node:
    """Return the weights of a layer, before their rounding."""
    found = graph[graph[layer].inputs["weights"][0]]
    return found if found.value is not None else graph[found.inputs["input"][0]]


def _is_module(place: Place | None) -> bool:
    """Return whether an op is all that a module computes, so that its result can be rounded."""
    if place is None:
        return False
    return bool(place.builtin) or any(c.startswith(FUNCTIONAL) for c in place.classes[-1:])


def _norm_behind(traced: Traced, layer: str) -> str | None:
    """Return the path of the batch normalization that alone reads a layer's result."""
    users = traced.graph.consumers(layer)
    place = traced.places.get(users[0].name) if len(users) == 1 else None
    found = place is not None and (place.builtin or "").startswith("BatchNorm")
    return place.path if found and place is not None else None


def _check_calls(traced: Traced, names: list[str], *, reused: bool) -> None:
    """Complain of modules that are called several times: an error, or a warning."""
    lines: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        place = traced.places[name]
        lines.setdefault(place.path, []).append(place.line)
    for path, places in lines.items():
        if len(places) == 1:
            continue
        text = f"module {path!r} is called {len(places)} times ({', '.join(places)})"
        if not reused:
            raise messages.error(
                "QUANTIZER_TORCH_REUSED_MODULE",
                f"{text}; make one for each call, or share the scale with allow_reused_module=True",
            )
        messages.warn("QUANTIZER_TORCH_REUSED_MODULE", f"{text}; all calls have one scale")


def _check_placed(traced: Traced, reference: Graph, groups: ScaleGroups, placed: set[str]) -> None:
    """Complain of results that no module rounds."""
    for group, members in groups.members.items():
        if group in placed:
            continue
        place = next((traced.places[n] for n in members if n in traced.places), None)
        whole = None if place is not None else _whole(traced, reference, members[0])
        if whole is not None and _is_module(whole):
            raise messages.error(
                "QUANTIZER_TORCH_NOT_A_MODULE",
                f"module {whole.path!r} ({_kind(whole)}) is several steps on the "
                "DPU, each of which is rounded, and training rounds only what a module returns: "
                "make it of modules that are one step, use another one, or leave it outside of "
                "QuantStub and DeQuantStub",
            )
        place = place or whole
        what = f"{place.kind} ({place.line})" if place else f"{members[0]!r}"
        raise messages.error(
            "QUANTIZER_TORCH_NOT_A_MODULE",
            f"{what} is to be quantized, but is no torch.nn.Module: use one, for + and - those of "
            "pytorch_nndct.nn.modules.functional",
        )


def _kind(place: Place) -> str:
    """Return the class of a module, without its package."""
    return place.builtin or place.classes[-1].rpartition(".")[2]


def _whole(traced: Traced, reference: Graph, name: str) -> Place | None:
    """Return where something is computed that the engine has taken apart: a step of it is given.

    Steps have names that begin with that of the whole, or lead to it.
    """
    named = [n for n in traced.places if name.startswith(f"{n}_")]
    if named:
        return traced.places[max(named, key=len)]
    waiting, seen = [name], {name}
    for step in waiting:
        if step in traced.places:
            return traced.places[step]
        users = [node.name for node in reference.consumers(step)]
        waiting += [user for user in users if user not in seen]
        seen.update(users)
    return None
