# SPDX-License-Identifier: Apache-2.0
"""What finetuning and training win back where weights have few bits: accuracy, as JSON.

``rounded`` is rounding alone, at the scales with the least error for 100 training samples; ``ptq``
is post-training quantization with these and all its corrections, ``finetuned`` that with AdaQuant,
``qat`` training with rounding; all are computed as the compiled program computes them, and
judged by samples that nothing else has looked at (see ``qat_tasks.py`` for networks and splits).

    MODELS=../shared/models python scripts/bench/bench_qat.py kws --bits 3 --seeds 2
"""

import argparse
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from qat_tasks import BATCH, TASKS, Task
from torch import nn

from pytorch_nndct import QatProcessor
from pytorch_nndct.apis import torch_quantizer

CALIBRATION = 100
CONFIG = "config.json"


def train(model: Any, task: Task, optimizer: Any, epochs: int) -> None:
    """Train with labels and with what the float network says; learning rates go down to zero.

    Batch normalizations are frozen after half of the epochs.
    """
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, epochs))
    model.train()
    for epoch in range(epochs):
        if 2 * epoch >= epochs:
            model.freeze_bn()
        for part in torch.split(torch.randperm(len(task.inputs)), BATCH):
            rows = int(torch.randint(-task.shift, task.shift + 1, ()))
            shown = torch.roll(task.inputs[part], rows, 2)
            with torch.no_grad():
                wanted = task.model(shown).softmax(1)
            scores = model(shown)
            loss = nn.functional.kl_div(scores.log_softmax(1), wanted, reduction="batchmean")
            loss = loss + task.labels_weight * nn.functional.cross_entropy(
                scores, task.labels[part]
            )
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
        schedule.step()
    model.eval()


def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the percentage of images that are recognized."""
    with torch.no_grad():
        return round(100 * float((model(images).argmax(1) == labels).float().mean()), 2)


def measured(name: str, bits: int, epochs: int, seed: int) -> dict[str, object]:
    """Return accuracies, and the seconds that each took, for one draw."""
    settings = {"tensor_quantize_config": {"weights": {"bit_width": bits}}}
    pathlib.Path(CONFIG).write_text(json.dumps(settings), encoding="utf-8")
    task = TASKS[name](seed)
    model = task.model
    shown = task.inputs[:CALIBRATION]
    seconds: dict[str, float] = {}

    def timed(name: str, call: Callable[[], nn.Module]) -> float:
        torch.manual_seed(seed)  # each is what it is without the others
        start = time.perf_counter()
        found = call()
        seconds[name] = round(time.perf_counter() - start, 1)
        score = accuracy(found, task.test_inputs, task.test_labels)
        print(f"seed {seed}: {name} {score} % after {seconds[name]} s", file=sys.stderr)
        return score

    def post_training(finetune: bool) -> nn.Module:
        options: dict[str, Any] = {"device": "cpu", "quant_config_file": CONFIG}
        quantizer = torch_quantizer("calib", model, shown, **options)
        if finetune:
            quantizer.fast_finetune(quantizer.quant_model, (shown,))
        quantizer.quant_model(shown)
        quantizer.export_quant_config()
        tested = torch_quantizer("test", model, shown, **options)
        if finetune:
            tested.load_ft_param()
        return tested.quant_model

    def trained(epochs: int) -> nn.Module:
        processor = QatProcessor(model, shown, quant_config_file=CONFIG)
        quantized = processor.trainable_model()
        quantized.eval()(shown)  # chooses the scales
        groups = [
            {"params": list(quantized.quantizer_parameters()), "lr": task.threshold_rate},
            {"params": list(quantized.non_quantizer_parameters()), "lr": task.weight_rate},
        ]
        train(quantized, task, torch.optim.Adam(groups), epochs)
        return processor.to_deployable(quantized)

    return {
        "seed": seed,
        "float": accuracy(model, task.test_inputs, task.test_labels),
        "rounded": timed("rounded", lambda: trained(0)),
        "ptq": timed("ptq", lambda: post_training(False)),
        "finetuned": timed("finetuned", lambda: post_training(True)),
        "qat": timed("qat", lambda: trained(epochs)),
        "seconds": seconds,
    }


def won_back(draws: list[dict[str, Any]]) -> dict[str, float]:
    """Return which percentage of what rounding alone loses comes back, over all draws."""
    stages = ("ptq", "finetuned", "qat")
    total = {key: sum(draw[key] for draw in draws) for key in ("float", "rounded", *stages)}
    lost = total["float"] - total["rounded"]
    return {key: round(100 * (total[key] - total["rounded"]) / lost, 1) if lost > 0 else 100.0
            for key in stages}  # fmt: skip


def main() -> None:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("network", nargs="?", choices=sorted(TASKS), default="digits")
    parser.add_argument("--bits", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # small products wait longer for a second thread than they take
    draws = []
    before = os.getcwd()  # noqa: PTH109 - to go back there
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        os.chdir(folder)
        try:
            for seed in range(arguments.seeds):
                draws.append(measured(arguments.network, arguments.bits, arguments.epochs, seed))
        finally:
            os.chdir(before)
    found = {"network": arguments.network, "bits": arguments.bits, "epochs": arguments.epochs}
    print(json.dumps({**found, "draws": draws, "won_back": won_back(draws)}, indent=2))


if __name__ == "__main__":
    main()
