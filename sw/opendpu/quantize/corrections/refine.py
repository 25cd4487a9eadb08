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
from opendpu.quantize.observers.mean import Mean
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.placement.insert import Rounded, insert, refit
from opendpu.quantize.placement.specs import TensorSpecs
from opendpu.quantize.progress import Progress
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
    some = samples.chosen(spread(usable, plan.samples))
    whole, few = _simulations(graph, ends, layers, some, needed)
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
    graph: Graph, ends: list[str], layers: list[str], samples: Samples, needed: list[str]
) -> tuple[Simulation, Simulation | None]:
    """Return what computes graphs on some samples, and on a part of them, if that is less work."""
    batched = not mixes_samples(graph, [*ends, *layers])
    level, count, step = level_ends(graph, ends), samples.count, screened(samples.count)
    numbers = list(range(0, count, step)) if step else []
    wanted: dict[str, list[Array]] = {name: [] for name in ends}
    means, few_means = ({name: Mean() for name in layers} for _ in range(2))
    done = 0
    for several, results in evaluate(graph, [*ends, *layers], samples, batch=count):
        for name in ends:
            wanted[name].extend(np.split(results[name], several) if batched else [results[name]])
        for name, mean in means.items():
            mean.add(results[name])
        for number in numbers:
            if done <= number < done + several:
                for name, mean in few_means.items():
                    rows = len(results[name]) // several if batched else len(results[name])
                    start = (number - done) * rows if batched else 0
                    mean.add(results[name][start : start + rows])
        done += several
    made: list[Simulation] = []
    for chosen, found in ((range(count), means), (numbers, few_means)):
        if not chosen:
            continue
        feed = samples if found is means else samples.chosen(chosen)
        single = [] if batched else [feed.single(index) for index in range(feed.count)]
        join = np.concatenate if batched else np.stack
        made.append(Simulation(
            feed.stacked(0, feed.count) if batched
            else {name: np.stack([one[name] for one in single]) for name in single[0]},
            {name: join([arrays[number] for number in chosen]) for name, arrays in wanted.items()},
            {name: mean.value for name, mean in found.items()}, set(needed), feed.count,
            batched=batched, differences=level, like=made[0] if made else None,
        ))  # fmt: skip
    return made[0], made[1] if len(made) > 1 else None
