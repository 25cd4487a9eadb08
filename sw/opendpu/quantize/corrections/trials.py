# SPDX-License-Identifier: Apache-2.0
"""Which fix points refinement tries, and on which samples: within bounds of work and memory."""

import dataclasses
from collections.abc import Collection

import numpy as np

from opendpu.ir import Graph
from opendpu.ops.batching import constant_ops
from opendpu.quantize.finetune.examples import HELD_OUT, held_out
from opendpu.quantize.noise import SAMPLES as MEASURED
from opendpu.quantize.observers.observed import Observed
from opendpu.quantize.placement.groups import ScaleGroups
from opendpu.quantize.samples import Samples
from opendpu.quantize.scales.choose import candidate_errors
from opendpu.quantize.scales.grid import GRID
from opendpu.quantize.work import op_work

SAMPLES = 128
"""Samples that are looked at, if memory and work allow."""

FEWEST = 16
"""Samples that are needed; where they are too much work, fewer groups are tried."""

ENOUGH = 32
"""Samples that are enough, if others are left for the report."""

SCREENED = 4
"""One in so many samples is looked at first: most trials are worse on these already."""

FEWEST_SCREENED = 4
"""Samples that are looked at first, at least."""

PASSED = 0.3
"""Part of the trials that are expected to be computed on all samples."""

MEMORY_BYTES = 1 << 29
"""Size that the results of all ops together may have; limits the samples."""

WORK = (5e10, 1.2e11)
"""What trying may take, in multiply-accumulates or what takes as long: seconds. As much as the
network takes on all samples, but not less and not more than this."""

MOST_OPS = 200_000
"""Ops that all trials together may compute, whatever their size: some hundred microseconds each."""

KEPT_BYTES = 1 << 26
"""Size that the judged results of calibration may have to be kept, so that nothing computes them
again."""

STEPS = (-1, 1)
"""What is added to a fix point in trials."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is tried: groups in order of the graph, on so many samples."""

    groups: list[str]
    samples: int
    left_out: int
    """Groups that are not tried."""


def fitted_count(samples: Samples) -> int:
    """Return how many samples, from the first on, may be looked at: not those of the report."""
    return samples.count - MEASURED if samples.count >= ENOUGH + MEASURED else samples.count


def usable_samples(samples: Samples) -> list[int]:
    """Return the numbers of the samples that may be looked at: not those that judge in the end."""
    count = fitted_count(samples)
    if count < HELD_OUT * FEWEST_SCREENED:
        return list(range(count))
    return sorted(set(range(count)) - set(held_out(count)))


def spread(numbers: list[int], count: int) -> list[int]:
    """Return ``count`` of some numbers, as evenly spread over them as can be."""
    return [numbers[(2 * part + 1) * len(numbers) // (2 * count)] for part in range(count)]


def screened(count: int) -> int:
    """Return the distance of those samples that are looked at first; 0 where there are too few."""
    step = min(SCREENED, count // FEWEST_SCREENED)
    return step if step > 1 else 0


def plan_trials(
    graph: Graph, groups: ScaleGroups, observed: Observed, needed: list[str], available: int
) -> Plan:
    """Return which groups to try on how many samples.

    Within ``WORK``, ``MEMORY_BYTES`` and ``MOST_OPS``: what trials take grows with the square of a
    network's depth.
    """
    work = _work_behind(graph, needed)
    least, largest = WORK
    budget = min(largest, max(least, available * max(work.values(), default=0.0)))
    computing = [name for name in needed if graph[name].value is None]
    behind = {name: len(computing) - index for index, name in enumerate(computing)}
    names = [group for group in groups.members if group in work]
    cost = {group: len(STEPS) * max(work[n] for n in groups.members[group] if n in work)
            for group in names}  # fmt: skip
    size = 3 * 4 * sum(int(np.prod(graph[n].shape)) for n in needed if graph[n].value is None)
    most = max(1, min(SAMPLES, available, MEMORY_BYTES // max(1, size)))
    affordable = int(budget / max(1.0, _computed(SAMPLES) / SAMPLES * sum(cost.values())))
    count = min(most, max(FEWEST, affordable))
    chosen, left, ops = set(), budget / _computed(count), MOST_OPS
    for group in sorted(names, key=lambda g: _certainty(groups, observed, g)):
        computed = len(STEPS) * max(behind.get(name, 0) for name in groups.members[group])
        if cost[group] <= left and computed <= ops:
            chosen.add(group)
            left, ops = left - cost[group], ops - computed
    tried = [group for group in names if group in chosen]
    return Plan(tried, count, len(names) - len(tried))


def _computed(count: int) -> float:
    """Return how many samples a trial is expected to be computed on."""
    step = screened(count)
    return len(range(0, count, step)) + PASSED * count if step else float(count)


def _certainty(groups: ScaleGroups, observed: Observed, group: str) -> float:
    """Return how much worse the second candidate is than the best: near 1 where it is not."""
    first, second = sorted(candidate_errors(groups, observed.histograms, group, GRID).values())[:2]
    return second / first if first else float("inf")


def _work_behind(graph: Graph, needed: list[str]) -> dict[str, float]:
    """Return the work of computing everything that depends on an op, by op, at most."""
    left, behind = 0.0, {}
    for name in reversed(needed):
        left += op_work(graph[name], graph)
        behind[name] = left
    return behind


def ends_of(graph: Graph, groups: ScaleGroups) -> list[str]:
    """Return the quantized tensors behind which no other is, of those that samples change."""
    users, chosen = graph.consumer_map(), set(groups.names) - constant_ops(graph)
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


def kept_ends(graph: Graph, groups: ScaleGroups, count: int) -> list[str]:
    """Return what :func:`ends_of` does; nothing where that is too much for ``count`` samples."""
    ends = ends_of(graph, groups)
    size = sum(int(np.prod(graph[name].shape)) for name in ends)
    return ends if 4 * size * count <= KEPT_BYTES else []


def level_ends(graph: Graph, ends: Collection[str]) -> list[str]:
    """Return those results of which only the differences between channels matter.

    Only softmax over the channels reads them: it gives the same where all differ by a constant.
    """
    users = graph.consumer_map()

    def is_level(name: str) -> bool:
        last = len(graph[name].shape) - 1
        return bool(users[name]) and name not in graph.outputs and all(
            (node.kind == "softmax" and int(node.attrs["axis"]) in (-1, last))
            or (node.kind == "reshape" and node.shape[-1] == graph[name].shape[-1]
                and is_level(node.name))
            for node in users[name]
        )  # fmt: skip

    return [name for name in ends if is_level(name)]
