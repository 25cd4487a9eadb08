# SPDX-License-Identifier: Apache-2.0
"""One network through every door: cycles, bytes of machine code, results; prints JSON.

Doors are the files of frameworks, ``torch.compile``, ``wego_torch`` and both sessions of ONNX
Runtime; those whose framework is not installed are left out. PyTorch and TensorFlow are in
environments of their own, so the script runs once in each:

    .venv/bin/python scripts/bench/bench_same_network.py --side 56 --channels 64
    .venv-tensorflow/bin/python scripts/bench/bench_same_network.py --side 56 --channels 64
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np

TESTS = pathlib.Path(__file__).resolve().parents[2] / "tests"
sys.path.append(str(TESTS / "unit" / "opendpu" / "frontend" / "doors"))

from programs import LIVE, through  # type: ignore[import-not-found]  # noqa: E402
from small_network import FILES, Weights  # type: ignore[import-not-found]  # noqa: E402

from opendpu.api import find_target  # noqa: E402
from opendpu.profile import COUNTER, profile  # noqa: E402


def measure(door: str, own: Weights, images: Any, target: str, memory: str) -> dict[str, Any]:
    """Return what one door makes of the network."""
    with tempfile.TemporaryDirectory() as text, contextlib.redirect_stdout(sys.stderr):
        made = through(door, pathlib.Path(text), own, images, target)
        found = profile(made.graph, device=COUNTER, memory=memory, target=find_target(target))
    return {
        "door": door, "cycles": sum(run.statistics.cycles for run in found.runs),
        "code_bytes": len(made.code), "code": made.digest,
        "results": hashlib.sha256(np.ascontiguousarray(made.results).tobytes()).hexdigest()[:12],
    }  # fmt: skip


def main() -> None:
    """Measure and print; leave with status 1 if a door leads elsewhere than ONNX."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=12, help="of images, pixels")
    parser.add_argument("--channels", type=int, default=8)
    parser.add_argument("--target", default="B4096")
    parser.add_argument("--memory", default="kv260")
    parser.add_argument("--doors", nargs="*", default=[*FILES, *LIVE])
    args = parser.parse_args()
    own = Weights(args.side, args.channels)
    random = np.random.default_rng(1)
    images = random.standard_normal((30, *own.size[1:])).astype(np.float32)
    rows, missing = [], {}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["OPENDPU_CACHE"] = cache
        for door in dict.fromkeys(["ONNX", *args.doors]):
            try:
                rows.append(measure(door, own, images, args.target, args.memory))
            except BaseException as reason:
                if type(reason).__name__ not in ("Skipped", "ModuleNotFoundError", "ToolError"):
                    raise
                missing[door] = str(reason)
    same = all(
        abs(row["cycles"] / rows[0]["cycles"] - 1) < 0.01 and row["results"] == rows[0]["results"]
        for row in rows
    )
    print(json.dumps({**vars(args), "rows": rows, "missing": missing, "same": same}, indent=2))
    sys.exit(not same)


if __name__ == "__main__":
    main()
