# SPDX-License-Identifier: Apache-2.0
"""What ``execute_async`` and ``wait`` cost beyond the device's own time, as JSON on stdout.

The device does nothing but take the time; the model is AMD's MNIST classifier, or any other.
"""

import argparse
import json
import pathlib
import statistics
import time
from typing import Any

import numpy as np

import vart
from opendpu.runtime import Job, JobStatistics, Runner
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch.target import Target
from xir import Graph, Subgraph

MNIST = "../shared/models/amd_compiled/dpu_mnist_classifier.xmodel"


class Idle:
    """A device that computes nothing and sums up the time it was asked to."""

    name = "idle"

    def __init__(self, target: Target) -> None:
        self.target = target
        self.seconds = 0.0

    def run(self, job: Job) -> JobStatistics:
        """Return at once."""
        start = time.perf_counter()
        made = JobStatistics(device=self.name)
        self.seconds += time.perf_counter() - start
        return made

    def close(self) -> None:
        """Do nothing."""


def measure(runner: Any, device: Idle, jobs: int, rounds: int) -> dict[str, float]:
    """Return microseconds a job, of several rounds of ``jobs`` one after the other."""
    tensors = runner.get_input_tensors(), runner.get_output_tensors()
    given, wanted = ([np.zeros(t.dims, t.data_type.numpy()) for t in side] for side in tensors)
    found = []
    for _ in range(rounds):
        device.seconds, start = 0.0, time.perf_counter()
        for _ in range(jobs):
            runner.wait(runner.execute_async(given, wanted))
        found.append((time.perf_counter() - start - device.seconds) / jobs * 1e6)
    return {"best": round(min(found), 1), "median": round(statistics.median(found), 1)}


def overhead(subgraph: Subgraph, jobs: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the overhead of our runner and of AMD's interface over it."""
    device = Idle(Target.from_fingerprint(subgraph.get_attr("dpu_fingerprint")))
    return {
        "opendpu": measure(Runner(subgraph, device=device), device, jobs, rounds),
        "vart": measure(vart.Runner.create_runner(subgraph, device=device), device, jobs, rounds),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", type=pathlib.Path, default=pathlib.Path(MNIST))
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    subgraph = dpu_subgraphs(Graph.deserialize(arguments.model))[0]
    found = overhead(subgraph, arguments.jobs, arguments.rounds)
    print(json.dumps({"unit": "microseconds a job", "overhead": found}, indent=2))


if __name__ == "__main__":
    main()
