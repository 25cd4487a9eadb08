# SPDX-License-Identifier: Apache-2.0
"""Whether what depends on what is found right in networks of timm, as JSON, a line a network.

Half of every group of channels is cut; the network with zeros and the slim one get the same image,
and ``diff`` is the largest difference of their scores, ``scale`` the largest score. Weights are
random. timm needs torchvision (``pip install timm torchvision``).

    python scripts/bench/bench_timm.py resnet18 mobilenetv2_050 efficientnet_b0
"""

import argparse
import json
import time
from typing import Any

import timm
import torch
from torch import nn

from opendpu.optimize import Pruner
from opendpu_arch.errors import DPUError

CLASSES, SIZE = 10, 64


def network(name: str) -> nn.Module:
    """Return a network whose normalizations do something."""
    torch.manual_seed(0)
    model: nn.Module = timm.create_model(name, pretrained=False, num_classes=CLASSES)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
            assert module.running_var is not None
            nn.init.normal_(module.running_mean, 0, 0.1)
            nn.init.uniform_(module.running_var, 0.8, 1.2)
    return model.eval()


def halved(name: str) -> dict[str, Any]:
    """Return what half of every group's channels being cut makes of a network."""
    model, x = network(name), torch.randn(1, 3, SIZE, SIZE)
    pruner = Pruner(model, x)
    widths = {n: max(group.units // 2, 1) for n, group in pruner.dependencies.groups.items()}
    plan = pruner.plan_of(widths)
    sparse, slim = (pruner.apply(plan, mode).eval() for mode in ("sparse", "slim"))
    with torch.no_grad():
        wanted, found = sparse(x), slim(x)
    return {
        "groups": len(widths),
        "parameters": sum(p.numel() for p in model.parameters()),
        "slim_parameters": sum(p.numel() for p in slim.parameters()),
        "diff": float((wanted - found).abs().max()),
        "scale": float(wanted.abs().max()),
    }


def main() -> None:
    """Print a line for each network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("name", nargs="+")
    torch.set_num_threads(1)
    for name in parser.parse_args().name:
        start = time.perf_counter()
        try:
            row = halved(name)
        except (DPUError, RuntimeError) as error:
            row = {"error": f"{type(error).__name__}: {error}"}
        seconds = round(time.perf_counter() - start, 1)
        print(json.dumps({"name": name, **row, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
