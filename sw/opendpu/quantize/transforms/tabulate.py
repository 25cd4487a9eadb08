# SPDX-License-Identifier: Apache-2.0
"""What a DPU with tables computes in parts: softmax, normalizations of rows and maps, quotients."""

import dataclasses
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
from opendpu.quantize.transforms.layer_norm import is_layer_norm, layer_norm
from opendpu.quantize.transforms.layer_norm import spread_of as spread_of_rows
from opendpu.quantize.transforms.mask import HIDES, MOVES, mask_of, masked
from opendpu.quantize.transforms.parts import Parts
from opendpu.quantize.transforms.quotient import divisor_of, divisors_of, is_quotient, quotient
from opendpu.quantize.transforms.response_norm import (
    APART,
    is_response_norm,
    lengths_of,
    map_of,
    response_norm,
    squares_of,
)
from opendpu.quantize.transforms.rewrite import rewrite
from opendpu.quantize.transforms.scores import COARSE, largest_of, makers_of
from opendpu.quantize.transforms.scores import FLOAT as SCORES
from opendpu.quantize.transforms.softmax import is_softmax, scores_of, softmax
from opendpu.quantize.transforms.unit_vectors import is_unit_vectors, unit_vectors
from opendpu.quantize.transforms.unit_vectors import spread_of as spread_of_lengths
from opendpu.quantize.transforms.variance import NEARER, SPREAD

KINDS: Mapping[Callable[[Graph, Node], bool], Callable[[Parts], None]] = {
    is_softmax: softmax, is_layer_norm: layer_norm, is_unit_vectors: unit_vectors,
    is_group_norm: group_norm, is_response_norm: response_norm, is_quotient: quotient,
}  # fmt: skip
"""By what knows an op, what adds its parts."""

WIDE = (
    "the variances of its {0} differ by more than a factor of {1:g}, for which the DPU's bytes are "
    "too coarse; {0} that differ less would lift it"
)
DIVISORS = (
    "its divisors differ so much, or come so near to zero, that {0} of the DPU's bytes would lose "
    "more than a tenth; divisors of one sign that differ less would lift it"
)


@dataclasses.dataclass(frozen=True)
class Judge:
    """How samples say whether, and how, bytes hold what a normalization divides by.

    Parameters
    ----------
    what
        Whose variances they are.
    argument
        Of what adds the parts.
    decide
        Returns its value for what was observed, by sample; none where bytes do not hold it.
    observe
        Returns what counts of a sample of the source.
    source
        Returns what is normalized.
    most
        How far apart variances may be.
    reason
        Why the CPU has what bytes do not hold, of ``what`` and ``most``.
    """

    what: str
    argument: str
    decide: Callable[[Graph, Node, Array], object | None]
    observe: Callable[[Node, Array], Array] = lambda node, given: given
    source: Callable[[Graph, Node], str] = lambda graph, node: node.inputs["input"][0]
    most: float = SPREAD * NEARER
    reason: str = WIDE


JUDGES: Mapping[Callable[..., None], Judge] = {
    layer_norm: Judge("rows", "spread", lambda graph, node, seen: spread_of_rows(node, seen)),
    unit_vectors: Judge("rows", "spread", lambda graph, node, seen: spread_of_lengths(node, seen)),
    group_norm: Judge(
        "groups of channels", "spread", lambda graph, node, seen: spread_of(node, seen),
        variances_of,
    ),
    response_norm: Judge("images", "lengths", lengths_of, squares_of, map_of, APART**2),
    softmax: Judge("scores", "largest", largest_of, source=scores_of, reason=COARSE),
    quotient: Judge("quotients", "divisors", divisors_of, source=divisor_of, reason=DIVISORS),
}  # fmt: skip
"""By what adds the parts."""
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
    found = _replaceable(graph, samples, config, masks, demands)
    for parts in _replaced(graph, found).values():
        demands.add(parts.demands)
    for name in whole.keys() - found.keys():
        demands.floating |= dict.fromkeys(whole[name], HIDES)
    return list(found), demands


def _replaceable(
    graph: Graph, samples: Samples, config: QuantizeConfig, masks: Mapping[str, ComputedMask],
    demands: Demands,
) -> dict[str, Callable[[Parts], None]]:  # fmt: skip
    """Return what adds the parts of an op, by the op's name; scores too large for it stay float."""
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
    for name, (make, judge) in _judged(graph, found, samples).items():
        if make is None:
            del found[name]
            graph[name].reason = judge.reason.format(judge.what, judge.most)
            if graph[name].kind == "softmax":
                demands.floating |= dict.fromkeys(makers_of(graph, graph[name]), SCORES)
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
) -> dict[str, tuple[Callable[[Parts], None] | None, Judge]]:
    """Return what adds the parts of normalizations, given what samples say of their variances.

    None where these differ too much; and of what they are.
    """
    judges: dict[str, Judge] = {}
    sources: dict[str, str] = {}
    for name, add in found.items():
        if isinstance(add, functools.partial):  # a softmax, with a mask that the model computes
            judges[name], sources[name] = JUDGES[add.func], add.keywords["computed"].scores
        else:
            judges[name] = JUDGES[add]
            sources[name] = judges[name].source(graph, graph[name])
    every = list(dict.fromkeys(sources.values()))
    seen: dict[str, list[Array]] = {name: [] for name in sources}
    for _, part in evaluate(graph, every, samples, batch=1, stop=SAMPLES):
        for name, source in sources.items():
            given = part[source].reshape(graph[source].shape)
            seen[name].append(judges[name].observe(graph[name], given))
    judged: dict[str, tuple[Callable[[Parts], None] | None, Judge]] = {}
    for name, judge in judges.items():
        value, add = judge.decide(graph, graph[name], np.stack(seen[name])), found[name]
        make = None if value is None else functools.partial(add, **{judge.argument: value})
        judged[name] = make, judge
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
