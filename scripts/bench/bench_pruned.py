# SPDX-License-Identifier: Apache-2.0
"""What large networks take on a DPU when MACs are cut out of them, as JSON, a line a network.

Weights are random, so groups are narrowed alike, in blocks of the target, and nothing is told of
accuracy. The cycle model counts.

    python scripts/bench/bench_pruned.py mobilenetv2 resnet50 yolo --target B4096
"""

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import torch
from modules import MODULES, module_of
from torch import nn

from opendpu.frontend.pytorch import load_torch
from opendpu.optimize import Pruner
from opendpu.optimize.measure import measure
from opendpu_arch.target import Target

RATIOS = (0.0, 0.3, 0.5, 0.7)
"""Parts of the MACs that are cut."""
STEPS = 2
"""Of an analysis that has nothing to find out."""


def rows(name: str, target: Target) -> Iterator[dict[str, Any]]:
    """Yield what a network takes at each ratio."""
    side = MODULES[name][1]
    model, x = module_of(name), torch.randn(1, 3, side, side)
    pruner = Pruner(model, x, objective="macs", target=target)
    analysis = pruner.analyze(lambda network: 1.0, steps=STEPS)
    whole = pruner.objective.exact({})
    for ratio in RATIOS:
        widths = pruner.widths(pruner.plan(analysis, ratio)) if ratio else {}
        slim: nn.Module = model
        if ratio:
            slim = pruner.apply(pruner.plan_of(widths), "slim")
        found = measure(load_torch(slim, x), target)
        yield {
            "name": name,
            "target": target.name,
            "ratio": ratio,
            "macs_removed": round(1 - pruner.objective.exact(widths) / whole, 3),
            "parameters": sum(p.numel() for p in slim.parameters()),
            "cycles": found.cycles,
            "utilization": round(found.utilization, 3),
        }


def main() -> None:
    """Print a line for each network and ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name", nargs="+", choices=MODULES)
    parser.add_argument("--target", nargs="+", default=["B4096"])
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.name:
        for target in given.target:
            start = time.perf_counter()
            for row in rows(name, Target.from_name(target)):
                seconds = round(time.perf_counter() - start, 1)
                print(json.dumps({**row, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
