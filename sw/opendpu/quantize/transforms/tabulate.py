# SPDX-License-Identifier: Apache-2.0
"""What a DPU with tables computes in parts: softmax and LayerNorm."""

import functools
from collections.abc import Callable, Mapping

import numpy as np

from opendpu.ir import Graph, Node
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.executor import evaluate
from opendpu.quantize.placement.groups import Demands
from opendpu.quantize.placement.place import place
from opendpu.quantize.placement.specs import kept_float
from opendpu.quantize.placement.tables import has_tables
from opendpu.quantize.samples import Samples
from opendpu.quantize.transforms.computed_mask import FLOAT, ComputedMask, computed_masks
from opendpu.quantize.transforms.fold import fold
from opendpu.quantize.transforms.head import REASON as HEAD
from opendpu.quantize.transforms.head import of_head
from opendpu.quantize.transforms.layer_norm import (
    NEARER,
    SPREAD,
    floor_of,
    is_layer_norm,
    layer_norm,
)
from opendpu.quantize.transforms.mask import HIDES, mask_of, masked
from opendpu.quantize.transforms.parts import Parts
from opendpu.quantize.transforms.rewrite import rewrite
from opendpu.quantize.transforms.softmax import is_softmax, softmax

KINDS: Mapping[Callable[[Graph, Node], bool], Callable[[Parts], None]] = {
    is_softmax: softmax, is_layer_norm: layer_norm,
}  # fmt: skip
"""By what knows an op, what adds its parts."""


WIDE = (
    f"the variances of its rows differ by more than a factor of {SPREAD * NEARER:g}, for which the "
    "DPU's bytes are too coarse; rows that differ less would lift it"
)
AXES = 4
"""Of scores and of what is added to them, where a mask is computed."""
SAMPLES = 8
"""Samples that rows are judged by, at most."""


def tabulate(graph: Graph, samples: Samples, config: QuantizeConfig) -> tuple[list[str], Demands]:
    """Replace softmaxes and LayerNorms of a float graph by parts, in place.

    Those between ops of the DPU, for a target with tables. What the configuration keeps in float
    stays, and so do softmaxes of the head and LayerNorms of rows that differ too much.

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
    norms = [name for name in found if found[name] is layer_norm]
    for name, floor in _floors(graph, norms, samples).items():
        if floor is None:
            del found[name]
            graph[name].reason = WIDE
        else:
            found[name] = functools.partial(layer_norm, floor=floor)
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


def _floors(graph: Graph, names: list[str], samples: Samples) -> dict[str, float | None]:
    """Return how near to each other the rows of LayerNorms have to be brought first."""
    sources = {name: graph[name].inputs["input"][0] for name in names}
    every = list(dict.fromkeys(sources.values()))
    rows = [part for _, part in evaluate(graph, every, samples, batch=1, stop=SAMPLES)]
    return {
        name: floor_of(graph[name], np.stack([part[sources[name]] for part in rows]))
        for name in names
    }


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
    """Return whether the DPU computes all parts, what they read, and what reads them."""
    inside = [name for name in parts.names if name in graph.nodes and name not in parts.given]
    sources = {s for name in inside for s in graph[name].sources()} - parts.given
    return not floating.keys() & {*inside, *sources} and any(
        user.name not in floating and user.name not in inside
        for name in inside
        for user in users[name]
    )
