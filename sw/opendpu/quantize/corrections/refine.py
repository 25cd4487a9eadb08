# SPDX-License-Identifier: Apache-2.0
"""Fix points judged by the network's results instead of by each tensor on its own."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

from opendpu.ir import Array, Graph, Quantization
from opendpu.ops.batching import ancestors, mixes_samples
from opendpu.ops.cost import macs
from opendpu.quantize.corrections.simulate import Simulation
from opendpu.quantize.executor import evaluate
from opendpu.quantize.observers.mean import Mean
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.placement.insert import Rounded, insert, refit
from opendpu.quantize.placement.specs import TensorSpecs
from opendpu.quantize.progress import Progress
from opendpu.quantize.samples import Samples
from opendpu.quantize.scales.choose import candidate_errors
from opendpu.quantize.scales.grid import GRID, no_overflow
from opendpu.quantize.scales.shifts import Points, make_legal
from opendpu_arch.errors import GraphError

SAMPLES = 32
"""Samples that are looked at, if memory and work allow."""

FEWEST = 8
"""Samples that are needed; where they are too much work, fewer groups are tried."""

MEMORY_BYTES = 1 << 29
"""Size that the results of all ops together may have; limits the samples."""

WORK = 1.2e11
"""What trying may take, in multiply-accumulates or what takes as long: a few seconds."""

MOST_OPS = 200_000
"""Ops that all trials together may compute, whatever their size: some hundred microseconds each."""

ELEMENT_WORK = 200
"""Multiply-accumulates that take as long as an element that is added, rounded and moved."""

STEPS = (-1, 1)
"""What is added to a fix point in trials."""

GAIN = 0.99
"""A change is taken if it brings the error below this part of what it was."""

FEW_BEYOND = 0.005
"""Part of the values of an input that may saturate: rare outliers, not the white of pictures."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is tried: groups in order of the graph, on so many samples."""

    groups: list[str]
    samples: int
    left_out: int
    """Groups that are not tried."""


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
    relative squared error of the network's quantized results stays, if it does so on the even and
    on the odd samples: what only some samples gain by is chance. The biases of ``layers`` are
    corrected in every trial, as they will be in the end. ``note`` is told what is left out: large
    networks get trials where they are likeliest to change something. Inputs of the network do not
    get so fine that samples are beyond their range: programs convert them, and most let them wrap.
    """
    best = dict(fix_points)
    ends = _ends(graph, groups)
    if not ends:
        return best
    batched = not mixes_samples(graph, [*ends, *layers])
    needed = ancestors(graph, ends)
    plan = plan_trials(graph, groups, observed, needed, samples.count)
    if plan.left_out:
        note(
            f"refinement tried {len(plan.groups)} of {len(plan.groups) + plan.left_out} groups of "
            "tensors, those whose fix points are least certain"
        )
    inputs = samples.stacked(0, plan.samples)
    if not batched:
        single = [samples.single(index) for index in range(plan.samples)]
        inputs = {name: np.stack([feed[name] for feed in single]) for name in inputs}
    joined = np.concatenate if batched else np.stack
    wanted, means = _float_results(graph, ends, layers, samples, plan.samples, joined)
    simulation = Simulation(inputs, wanted, means, set(needed), batched=batched)
    known: Rounded = {}
    templates = specs.templates()
    biases: dict[str, Points] = {}

    def quantizations(fix_points: dict[str, int]) -> dict[str, Quantization]:
        constants = make_legal(graph, groups, fix_points, weights, specs.bias, biases)
        return {n: templates[n].at(point) for n, point in fix_points.items()} | constants

    state = simulation.run(insert(graph, quantizations(best), known), None)
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
            found = simulation.run(refit(state.graph, graph, tried, known), state)
            if found.is_better(state, GAIN):
                best, state = trial, found
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


def plan_trials(
    graph: Graph, groups: ScaleGroups, observed: Observed, needed: list[str], available: int
) -> Plan:
    """Return which groups to try on how many samples.

    Within ``WORK``, ``MEMORY_BYTES`` and ``MOST_OPS``: what trials take grows with the square of a
    network's depth.
    """
    work = _work_behind(graph, needed)
    computing = [name for name in needed if graph[name].value is None]
    behind = {name: len(computing) - index for index, name in enumerate(computing)}
    names = [group for group in groups.members if group in work]
    cost = {group: len(STEPS) * max(work[n] for n in groups.members[group] if n in work)
            for group in names}  # fmt: skip
    size = 3 * 4 * sum(int(np.prod(graph[n].shape)) for n in needed if graph[n].value is None)
    most = max(1, min(SAMPLES, available, MEMORY_BYTES // max(1, size)))
    count = min(most, max(FEWEST, int(WORK / max(1.0, sum(cost.values())))))
    chosen, left, ops = set(), WORK / count, MOST_OPS
    for group in sorted(names, key=lambda g: _certainty(groups, observed, g)):
        computed = len(STEPS) * max(behind.get(name, 0) for name in groups.members[group])
        if cost[group] <= left and computed <= ops:
            chosen.add(group)
            left, ops = left - cost[group], ops - computed
    tried = [group for group in names if group in chosen]
    return Plan(tried, count, len(names) - len(tried))


def _certainty(groups: ScaleGroups, observed: Observed, group: str) -> float:
    """Return how much worse the second candidate is than the best: near 1 where it is not."""
    first, second = sorted(candidate_errors(groups, observed.histograms, group, GRID).values())[:2]
    return second / first if first else float("inf")


def _work_behind(graph: Graph, needed: list[str]) -> dict[str, float]:
    """Return the work of computing everything that depends on an op, by op, at most."""
    left, behind = 0.0, {}
    for name in reversed(needed):
        node = graph[name]
        if node.value is None:
            left += macs(node, graph) + ELEMENT_WORK * float(np.prod(node.shape))
        behind[name] = left
    return behind


def _ends(graph: Graph, groups: ScaleGroups) -> list[str]:
    """Return the quantized tensors behind which no other is."""
    users, chosen = graph.consumer_map(), set(groups.names)
    leads: set[str] = set()
    ends = []
    for node in reversed(graph.nodes.values()):
        behind = any(user.name in leads for user in users[node.name])
        if (
            node.name in chosen
            and node.value is None
            and (not behind or node.name in graph.outputs)
        ):
            ends.append(node.name)
        if behind or node.name in chosen:
            leads.add(node.name)
    return ends[::-1]


def _float_results(
    graph: Graph,
    ends: list[str],
    layers: list[str],
    samples: Samples,
    count: int,
    joined: Callable[[list[Array]], Array],
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return results of some ops, and means of the channels of others, for the first samples."""
    parts: dict[str, list[Array]] = {name: [] for name in ends}
    means = {name: Mean() for name in layers}
    for _, results in evaluate(graph, [*ends, *layers], samples, batch=count, stop=count):
        for name in ends:
            parts[name].append(results[name])
        for name, mean in means.items():
            mean.add(results[name])
    wanted = {name: joined(arrays) for name, arrays in parts.items()}
    return wanted, {name: mean.value for name, mean in means.items()}
