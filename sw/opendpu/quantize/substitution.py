# SPDX-License-Identifier: Apache-2.0
"""Activation substitution as a step of the quantizer: proposed or done, measured, made up for."""

import functools
import math
from collections.abc import Callable, Mapping

from opendpu.ir import Graph
from opendpu.ir.types import FLOAT32
from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.finetune.refit import refit
from opendpu.quantize.noise import sqnr
from opendpu.quantize.placement.tables import has_tables
from opendpu.quantize.progress import Progress
from opendpu.quantize.report import Report
from opendpu.quantize.samples import Samples
from opendpu.quantize.transforms.fold import fold
from opendpu.quantize.transforms.substitute import substitutable, substitute

REFITTED_DB = 30.0
"""Signal to noise of substituted activations, in dB, below which weights are refitted to them."""


def substitute_activations(
    graph: Graph, samples: Samples, config: QuantizeConfig, report: Report, progress: Progress
) -> None:
    """Replace activations, in place, and report what it cost; or propose it."""
    names = [] if has_tables(config.target) else substitutable(graph)
    if not names:
        return
    how = config.activation_substitution
    if how == "none":
        report.note(
            f"sigmoid and swish split the network between DPU and CPU ({len(names)} ops); "
            "activation substitution 'hard' would put them on the DPU"
        )
        return
    fold(graph)
    before = graph.copy()
    substitute(graph, how, names)
    report.substituted = names
    progress.say("measuring what substituted activations cost")
    pairs = [(name, name) for name in graph.outputs if graph[name].type.dtype == FLOAT32]
    cost = functools.partial(sqnr, before, pairs=pairs, samples=samples, batch=config.batch,
                             stop=samples.count)  # fmt: skip
    report.substitution_sqnr = cost(graph)
    if config.weight_correction and _worst(report.substitution_sqnr) < REFITTED_DB:
        _refitted(graph, before, samples, config, report, progress, cost)


def _refitted(
    graph: Graph, before: Graph, samples: Samples, config: QuantizeConfig, report: Report,
    progress: Progress, cost: Callable[[Graph], dict[str, float | None]],
) -> None:  # fmt: skip
    """Refit the layers behind substituted activations, in place, if that helps; report it."""
    made = graph.copy()
    layers = refit(
        made, before, report.substituted, samples, batch=config.batch, seed=config.seed,
        progress=progress,
    )  # fmt: skip
    worst = _worst(report.substitution_sqnr)
    found = _worst(cost(made)) if layers else worst
    if found <= worst:
        report.note("refitting weights to substituted activations brought results no nearer")
        return
    for name in layers:
        for constant in (n for names in made[name].inputs.values() for n in names):
            if made[constant].value is not None:
                graph[constant].value = made[constant].value
    report.note(
        f"weights of {len(layers)} layers were refitted to substituted activations: the worst "
        f"output has {found:.1f} dB, where it had {worst:.1f} dB"
    )


def _worst(ratios: Mapping[str, float | None]) -> float:
    """Return the least signal to noise, in dB; infinity without noise."""
    return min((ratio for ratio in ratios.values() if ratio is not None), default=math.inf)
