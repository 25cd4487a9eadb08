# SPDX-License-Identifier: Apache-2.0
"""Time WeGO against the runner called by hand: the same program, images and device; prints JSON.

The networks have random weights; times do not depend on them. ``workload_gop`` counts a
multiply-accumulate as two operations; ``dpu_cycles`` and ``dpu_ms`` an image are those of the cycle
model for the same program, at ``--clock`` MHz.
"""

import argparse
import json
import pathlib
import tempfile
import time
from typing import Any

import numpy as np
import torch
from modules import MODULES, module_of

import wego_torch
from opendpu import api
from wego_torch.script import artefacts_of

NETWORKS = {"resnet50": "ResNet-50", "yolov3": "YOLOv3"}
"""Those of AMD's table of WeGO."""


def _wego(module: torch.nn.Module, images: torch.Tensor, batch: int) -> float:
    start = time.perf_counter()
    with torch.no_grad():
        for first in range(0, len(images), batch):
            module(images[first : first + batch])
    return time.perf_counter() - start


def _by_hand(runner: object, feeds: dict[str, np.ndarray], batch: int) -> float:
    (name,) = feeds
    start = time.perf_counter()
    for first in range(0, len(feeds[name]), batch):
        api.run_batch(runner, {name: feeds[name][first : first + batch]}, floats=True)  # type: ignore[arg-type]
    return time.perf_counter() - start


def measure(name: str, size: int, args: argparse.Namespace) -> dict[str, Any]:
    """Return the row of a network: medians of rounds in which both take turns."""
    shape = [args.batch, 3, size, size]
    with tempfile.TemporaryDirectory() as folder:
        quantized = wego_torch.quantize(
            module_of(name), [shape], [torch.randn(shape)],
            lambda model, images, *_: model(images), output_dir=folder,
        )  # fmt: skip
        options = wego_torch.CompileOptions(device=args.device)
        module = wego_torch.compile(quantized, options)
        (artefact,) = artefacts_of(module)
        path = pathlib.Path(folder) / "model.xmodel"
        path.write_bytes(artefact.model)
        total = api.profile(path, clock_mhz=args.clock).total()
        images = torch.randn(args.frames, *shape[1:])
        feeds = {artefact.inputs[0]: images.permute(0, 2, 3, 1).contiguous().numpy()}
        with api.create_runner(path, device=args.device) as runner:
            _wego(module, images[: args.batch], args.batch)
            _by_hand(runner, {n: a[: args.batch] for n, a in feeds.items()}, args.batch)
            times = [
                (_wego(module, images, args.batch), _by_hand(runner, feeds, args.batch))
                for _ in range(args.rounds)
            ]
    wego, by_hand = (float(np.median(column)) for column in zip(*times, strict=True))
    return {
        "network": NETWORKS[name], "workload_gop": round(total.work.operations / 1e9, 2),
        "resolution": f"{size}x{size}", "frames": args.frames,
        "device": args.device, "batch": args.batch, "wego_seconds": round(wego, 3),
        "runner_seconds": round(by_hand, 3), "slower": round(wego / by_hand - 1, 4),
        "frames_per_second": round(args.frames / wego, 2),
        "dpu_cycles": int(total.cycles), "dpu_ms": round(float(total.cycles) / args.clock / 1e3, 3),
    }  # fmt: skip


def main() -> None:
    """Measure the networks and print their rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=["resnet50"], metavar="NETWORK")
    parser.add_argument("--frames", type=int, default=500)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, help="rows and columns, if not the network's own")
    parser.add_argument("--device", default="ref")
    parser.add_argument("--clock", type=float, default=300, help="MHz")
    args = parser.parse_args()
    for name in args.networks:
        if name not in NETWORKS:
            parser.error(f"{name} is none of {', '.join(NETWORKS)}")
    rows = [measure(name, args.size or MODULES[name][1], args) for name in args.networks]
    print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
