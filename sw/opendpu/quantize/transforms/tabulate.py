# SPDX-License-Identifier: Apache-2.0
"""What a DPU with tables computes in parts: softmax, and normalizations of rows and maps."""

import functools
from collections.abc import Callable, Mapping

import numpy as np

from opendpu.ir import Array, Graph, Node
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.executor import evaluate
from opendpu.quantize.placement.groups import Demands
from opendpu.quantize.placement.place import place
from opendpu.quantize.placement.specs import kept_float
from opendpu.quantize.placement.tables import has_tables
from opendpu.quantize.samples import Samples
from opendpu.quantize.transforms.computed_mask import FLOAT, ComputedMask, computed_masks
from opendpu.quantize.transforms.fold import fold
from opendpu.quantize.transforms.group_norm import (
    group_norm,
    is_group_norm,
    spread_of,
    variances_of,
)
from opendpu.quantize.transforms.head import REASON as HEAD
from opendpu.quantize.transforms.head import of_head
from opendpu.quantize.transforms.layer_norm import floor_of, is_layer_norm, layer_norm
from opendpu.quantize.transforms.mask import HIDES, MOVES, mask_of, masked
from opendpu.quantize.transforms.parts import Parts
from opendpu.quantize.transforms.rewrite import rewrite
from opendpu.quantize.transforms.softmax import is_softmax, softmax
from opendpu.quantize.transforms.unit_vectors import floor_of as floor_of_lengths
from opendpu.quantize.transforms.unit_vectors import is_unit_vectors, unit_vectors
from opendpu.quantize.transforms.variance import NEARER, SPREAD

KINDS: Mapping[Callable[[Graph, Node], bool], Callable[[Parts], None]] = {
    is_softmax: softmax, is_layer_norm: layer_norm, is_unit_vectors: unit_vectors,
    is_group_norm: group_norm,
}  # fmt: skip
"""By what knows an op, what adds its parts."""
ROWS: Mapping[Callable[..., None], Callable[[Node, Array], float | None]] = {
    layer_norm: floor_of, unit_vectors: floor_of_lengths,
}  # fmt: skip
"""How near rows have to be brought to each other, by what adds the parts."""


WIDE = (
    "the variances of its {0} differ by more than a factor of "
    f"{SPREAD * NEARER:g}"
    ", for which the DPU's bytes are too coarse; {0} that differ less would lift it"
)
AXES = 4
"""Of scores and of what is added to them, where a mask is computed."""
SAMPLES = 8
"""Samples that rows are judged by, at most."""


def tabulate(graph: Graph, samples: Samples, config: QuantizeConfig) -> tuple[list[str], Demands]:
    """Replace softmaxes and normalizations of a float graph by parts, in place.

    Those between ops of the DPU, for a target with tables. What the configuration keeps in float
    stays, and so do softmaxes of the head and normalizations of what differs too much.

    Returns
    -------
    Their names, which their results keep, and what their parts need of their scales.
    """
    masks = computed_masks(graph, samples)
    demands = Demands()
    for mask in masks.values():
        demands.floating |= dict.fromkeys((mask.total, *mask.makers), FLOAT)
    whole = {
        node.name: masked(graph, node) for node in graph
        if node.kind == "softmax" and mask_of(graph, node) is not None
    }  # fmt: skip
    found = _replaceable(graph, samples, config, masks)
    for parts in _replaced(graph, found).values():
        demands.add(parts.demands)
    for name in whole.keys() - found.keys():
        demands.floating |= dict.fromkeys(whole[name], HIDES)
    return list(found), demands


def _replaceable(
    graph: Graph, samples: Samples, config: QuantizeConfig, masks: Mapping[str, ComputedMask]
) -> dict[str, Callable[[Parts], None]]:
    """Return what adds the parts of an op, by the op's name."""
    target = config.target
    if target is None or not has_tables(target) or not target.save_argmax:
        return {}
    kept = kept_float(graph, config)
    found = {n.name: make for n in graph if n.name not in kept for is_kind, make in KINDS.items()
             if is_kind(graph, n)}  # fmt: skip
    for name, mask in masks.items():
        if (
            found.get(name) is softmax
            and len(graph[name].shape) == len(graph[mask.mask].shape) == AXES
        ):
            found[name] = functools.partial(softmax, computed=mask)
    for name in of_head(graph, [name for name in found if graph[name].kind == "softmax"]):
        del found[name]
        graph[name].reason = HEAD
    for name, (make, what) in _judged(graph, found, samples).items():
        if make is None:
            del found[name]
            graph[name].reason = WIDE.format(what)
        else:
            found[name] = make
    while found:
        trial = graph.copy()
        made = _replaced(trial, found)
        fold(trial)  # a normalization that is not folded yet would count as one of the CPU
        rewrite(trial)
        kept_in_trial = Demands()
        for parts in made.values():
            kept_in_trial.floating |= parts.demands.floating
        floating = place(trial, config, kept_in_trial).floating
        users = trial.consumer_map()
        left = {
            name: make for name, make in found.items()
            if _is_on_dpu(trial, made[name], floating, users)
        }  # fmt: skip
        if len(left) == len(found):
            break
        found = left
    return found


def _judged(
    graph: Graph, found: Mapping[str, Callable[[Parts], None]], samples: Samples
) -> dict[str, tuple[Callable[[Parts], None] | None, str]]:
    """Return what adds the parts of normalizations, given what samples say of their variances.

    None where these differ too much; and of what they are.
    """
    rows: dict[str, Callable[..., None]] = {n: make for n, make in found.items() if make in ROWS}
    maps = {name for name, make in found.items() if make is group_norm}
    sources = {name: graph[name].inputs["input"][0] for name in (*rows, *maps)}
    every = list(dict.fromkeys(sources.values()))
    seen: dict[str, list[Array]] = {name: [] for name in sources}
    for _, part in evaluate(graph, every, samples, batch=1, stop=SAMPLES):
        for name, source in sources.items():
            given = part[source].reshape(graph[source].shape)
            seen[name].append(given if name in rows else variances_of(graph[name], given))
    judged: dict[str, tuple[Callable[[Parts], None] | None, str]] = {}
    for name, parts in seen.items():
        node, values = graph[name], np.stack(parts)
        if name in rows:
            floor = ROWS[rows[name]](node, values)
            make = None if floor is None else functools.partial(rows[name], floor=floor)
            judged[name] = make, "rows"
        else:
            spread = spread_of(node, values)
            made = None if spread is None else functools.partial(group_norm, spread=spread)
            judged[name] = made, "groups of channels"
    return judged


def _replaced(graph: Graph, found: Mapping[str, Callable[[Parts], None]]) -> dict[str, Parts]:
    """Replace ops; return the parts of each."""
    made = {name: Parts(graph, graph[name]) for name in found}
    for name, parts in made.items():
        found[name](parts)
    graph.sort()
    graph.prune()
    return made


def _is_on_dpu(
    graph: Graph, parts: Parts, floating: Mapping[str, str], users: Mapping[str, list[Node]]
) -> bool:
    """Return whether the DPU computes all parts, some of what they read, and what reads them.

    The CPU may make single terms of a sum, and move them to where they are added.
    """
    inside = [name for name in parts.names if name in graph.nodes and name not in parts.given]
    sources = {s for name in inside for s in graph[name].sources()} - parts.given - {*inside}
    computed = [source for source in sources if graph[source].value is None]
    from_cpu = {source for source in computed if source in floating}
    moved = {
        name for name in inside
        if graph[name].kind in MOVES and from_cpu.issuperset(graph[name].sources())
    }  # fmt: skip
    if len(from_cpu) == len(computed) or floating.keys() & ({*inside} - moved):
        return False
    return any(
        user.name not in floating and user.name not in inside
        for name in inside
        for user in users[name]
    )
