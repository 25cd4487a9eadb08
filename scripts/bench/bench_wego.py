# SPDX-License-Identifier: Apache-2.0
"""Time WeGO against the runner called by hand: the same program, images and device; prints JSON.

The network is a ResNet-50 with random weights, by default; times do not depend on them.
"""

import argparse
import json
import os
import tempfile
import time

import numpy as np
import torch
from modules import module_of

import wego_torch
from opendpu import api
from wego_torch.script import artefacts_of


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


def main() -> None:
    """Measure, alternating, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=500)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--device", default="ref")
    args = parser.parse_args()
    shape = [args.batch, 3, args.size, args.size]
    with tempfile.TemporaryDirectory() as folder:
        quantized = wego_torch.quantize(
            module_of("resnet50"), [shape], [torch.randn(shape)],
            lambda model, images, *_: model(images), output_dir=folder,
        )  # fmt: skip
        module = wego_torch.compile(quantized, wego_torch.CompileOptions(device=args.device))
        (artefact,) = artefacts_of(module)
        path = os.path.join(folder, "model.xmodel")  # noqa: PTH118
        with open(path, "wb") as file:  # noqa: PTH123
            file.write(artefact.model)
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
    print(json.dumps({
        "network": "ResNet-50", "resolution": f"{args.size}x{args.size}", "frames": args.frames,
        "device": args.device, "batch": args.batch, "wego_seconds": round(wego, 3),
        "runner_seconds": round(by_hand, 3), "slower": round(wego / by_hand - 1, 4),
        "frames_per_second": round(args.frames / wego, 2),
    }, indent=2))  # fmt: skip


if __name__ == "__main__":
    main()
