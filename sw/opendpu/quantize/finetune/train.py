# SPDX-License-Identifier: Apache-2.0
"""One block, trained on examples until its result no longer comes nearer to the float network's."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from opendpu.ir import Array
from opendpu.quantize.config import FinetuneConfig
from opendpu.quantize.finetune.blocks import Block
from opendpu.quantize.finetune.examples import Examples
from opendpu.quantize.finetune.model import BlockModel, error_of
from opendpu.quantize.finetune.pytorch import threads, torch_module
from opendpu.quantize.finetune.rows import Form
from opendpu.quantize.finetune.variables import Variables

CHECKS = 16
"""How often during training the error on held-out examples is measured."""

PATIENCE = 5
"""Measurements without a new best after which training may stop early."""

ONE_THREAD = 1 << 17
"""Layers with fewer weights are trained by one thread."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """Weights and bias on their grids, as real numbers, and their error on held-out examples."""

    weights: Array
    bias: Array | None
    error: float


def train(
    block: Block, form: Form, variables: Variables, examples: Examples, judged: Examples,
    config: FinetuneConfig, rng: np.random.Generator, *, show: Callable[[float], None],
) -> Trained:  # fmt: skip
    """Return the best that training finds, what it starts from included.

    Parameters
    ----------
    block, form
        The block.
    variables
        What is trained; changed.
    examples, judged
        Examples to train with, and others that tell which step was the best.
    config
        How long, and how fast.
    rng
        Shuffles the examples for every pass over them.
    show
        Told which part is done.
    """
    with threads(1 if form.terms * form.groups * form.outputs < ONE_THREAD else None):
        return _train(block, form, variables, examples, judged, config, rng, show)


def _train(
    block: Block, form: Form, variables: Variables, examples: Examples, judged: Examples,
    config: FinetuneConfig, rng: np.random.Generator, show: Callable[[float], None],
) -> Trained:  # fmt: skip
    torch = torch_module()
    exact, model = BlockModel(block, form), BlockModel(block, form, torch)
    rate = config.learning_rate or variables.learning_rate
    optimizer = torch.optim.Adam(variables.trained(), lr=rate)
    best = _measured(exact, variables, judged)
    unit, examples = best.error or 1.0, examples.mapped(torch.from_numpy)
    place = rows = len(examples.wanted)
    size = min(rows, config.batch * variables.rows_a_sample)
    every, waited = max(1, config.iterations // CHECKS), 0
    for step in range(config.iterations):
        progress = step / config.iterations
        for group in optimizer.param_groups:
            group["lr"] = rate * 0.5 * (1 + math.cos(math.pi * progress))
        if place + size > rows:
            examples, place = examples.rows(torch.from_numpy(rng.permutation(rows))), 0
        some, place = examples.rows(slice(place, place + size)), place + size
        made = model.result(some, variables.weights(), variables.bias(), exact=False)
        loss = (made - some.wanted).square().mean() / unit + variables.penalty(progress)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % every == 0:
            show((step + 1) / config.iterations)
            found = _measured(exact, variables, judged)
            waited += 1
            if found.error < best.error:
                best, waited = found, 0
            if config.early_stop and waited >= PATIENCE:
                break
    return best


def _measured(exact: BlockModel, variables: Variables, judged: Examples) -> Trained:
    bias = variables.bias()
    weights = variables.final().numpy()
    held = None if bias is None else bias.detach().numpy()
    return Trained(weights, held, error_of(exact, judged, weights, held))
