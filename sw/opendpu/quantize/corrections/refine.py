# SPDX-License-Identifier: Apache-2.0
"""Fix points judged by the network's results instead of by each tensor on its own."""

from collections.abc import Callable, Mapping

import numpy as np

from opendpu.ir import Array, Graph, Quantization
from opendpu.ops.batching import ancestors, mixes_samples
from opendpu.quantize.corrections.simulate import Simulation
from opendpu.quantize.corrections.trials import (
    STEPS,
    ends_of,
    level_ends,
    plan_trials,
    screened,
    spread,
    usable_samples,
)
from opendpu.quantize.executor import evaluate
from opendpu.quantize.observers.mean import SampleMeans
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.placement.insert import Rounded, insert, refit
from opendpu.quantize.placement.specs import TensorSpecs
from opendpu.quantize.progress import Progress
from opendpu.quantize.reduced import with_means
from opendpu.quantize.samples import Samples
from opendpu.quantize.scales.grid import GRID, no_overflow
from opendpu.quantize.scales.shifts import Points, make_legal
from opendpu_arch.errors import GraphError

GAIN = 0.99
"""A change is taken if it brings the error below this part of what it was."""

FEW_BEYOND = 0.005
"""Part of the values of an input that may saturate: rare outliers, not the white of pictures."""


def refine(
    graph: Graph,
    groups: ScaleGroups,
    samples: Samples,
    specs: TensorSpecs,
    observed: Observed,
    fix_points: Mapping[str, int],
    weights: Mapping[str, Quantization],
    *,
    layers: list[str],
    progress: Progress,
    note: Callable[[str], None],
) -> dict[str, int]:
    """Return better fix points of activations.

    Group by group, from the inputs on, one bit less and one bit more are tried; what lowers the
    relative squared error of the network's quantized results stays, unless that may be chance. A
    few of the samples tell first whether a trial is worth all. The biases of ``layers`` are
    corrected in every trial, as they will be in the end. ``note`` is told what is left out: large
    networks get trials where they are likeliest to change something. Inputs of the network do not
    get so fine that samples are beyond their range: programs convert them, and most let them wrap.
    """
    best = dict(fix_points)
    ends = ends_of(graph, groups)
    if not ends:
        return best
    needed, usable = ancestors(graph, ends), usable_samples(samples)
    plan = plan_trials(graph, groups, observed, needed, len(usable))
    if plan.left_out:
        note(
            f"refinement tried {len(plan.groups)} of {len(plan.groups) + plan.left_out} groups of "
            "tensors, those whose fix points are least certain"
        )
    chosen = spread(usable, plan.samples)
    whole, few = _simulations(graph, ends, layers, samples, chosen, needed, observed)
    known: Rounded = {}
    templates = specs.templates()
    biases: dict[str, Points] = {}

    def quantizations(fix_points: dict[str, int]) -> dict[str, Quantization]:
        constants = make_legal(graph, groups, fix_points, weights, specs.bias, biases)
        return {n: templates[n].at(point) for n, point in fix_points.items()} | constants

    present = insert(graph, quantizations(best), known)
    state = whole.run(present, None)
    first = None if few is None else few.run(present, None)
    for number, group in enumerate(plan.groups):
        progress.step("refining", number, len(plan.groups), group)
        for step in STEPS:
            trial = dict(best)
            trial.update({name: best[name] + step for name in groups.members[group]})
            if trial[group] < groups.lower_bounds.get(group, trial[group]):
                continue
            if step > 0 and _is_too_fine(graph, groups, observed, group, trial[group]):
                continue
            try:
                tried = quantizations(trial)
            except GraphError:
                continue
            made = refit(state.graph, graph, tried, known)
            glance = None if few is None else few.run(made, first)
            if glance is not None and first is not None and not glance.is_lower(first):
                continue
            found = whole.run(made, state)
            if found.is_better(state, GAIN):
                best, state, first = trial, found, glance
                break
    return best


def _is_too_fine(
    graph: Graph, groups: ScaleGroups, observed: Observed, group: str, fix_point: int
) -> bool:
    """Return whether inputs of the network have values beyond the range, more than a few."""
    inputs = [name for name in groups.members[group] if graph[name].kind == "data"]
    return any(
        fix_point > no_overflow(observed.histograms[name].largest)
        and observed.histograms[name].saturation(GRID.at(fix_point)) > FEW_BEYOND
        for name in inputs
    )


def _simulations(
    graph: Graph,
    ends: list[str],
    layers: list[str],
    samples: Samples,
    numbers: list[int],
    needed: list[str],
    observed: Observed,
) -> tuple[Simulation, Simulation | None]:
    """Return what computes graphs on some samples, and on a part of them, if that is less work."""
    batched = not mixes_samples(graph, [*ends, *layers])
    means, wanted, places = observed.layers, observed.results, numbers
    if not set(ends) <= set(wanted) or not observed.has(numbers):
        means, wanted = _computed(graph, ends, layers, samples.chosen(numbers), batched=batched)
        places = list(range(len(numbers)))
    level, step = level_ends(graph, ends), screened(len(numbers))
    join = np.concatenate if batched else np.stack
    made: list[Simulation] = []
    for part in (slice(None), *([slice(None, None, step)] if step else [])):
        chosen, feed = places[part], samples.chosen(numbers[part])
        single = [] if batched else [feed.single(index) for index in range(feed.count)]
        made.append(Simulation(
            feed.stacked(0, feed.count) if batched
            else {name: np.stack([one[name] for one in single]) for name in single[0]},
            {name: join([wanted[name][place] for place in chosen]) for name in ends},
            {name: means[name].over(chosen) for name in layers}, set(needed), feed.count,
            batched=batched, differences=level, like=made[0] if made else None,
        ))  # fmt: skip
    return made[0], made[1] if len(made) > 1 else None


def _computed(
    graph: Graph, ends: list[str], layers: list[str], samples: Samples, *, batched: bool
) -> tuple[dict[str, SampleMeans], dict[str, list[Array]]]:
    """Return the float network's means of layers and results, sample by sample."""
    means = {name: SampleMeans() for name in layers}
    wanted: dict[str, list[Array]] = {name: [] for name in ends}
    averaged = with_means(graph, layers)
    kept = list(dict.fromkeys([*ends, *averaged.ops.values()]))
    for count, results in evaluate(averaged.graph, kept, samples, batch=samples.count):
        averaged.add_to(means, results, count)
        for name in ends:
            wanted[name].extend(np.split(results[name], count) if batched else [results[name]])
    return means, wanted
