# SPDX-License-Identifier: Apache-2.0
"""What every program does with a quantizer: time it, and compute the test samples with the result.

Arguments: a method, the ONNX model, ``.npy`` of calibration and of test samples (both in the
model's layout, batch in front), and the ``.npy`` to write. Prints seconds and peak memory as JSON.
Imports nothing of the project, so that it runs in any environment.
"""

import json
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Run = Callable[[Array], Array]
"""Computes one sample, batch of 1 in front."""
Quantizer = Callable[[str, pathlib.Path, Array], Run]
"""From method, model and calibration samples to the quantized network."""


def work(quantize: Quantizer) -> None:
    """Do what the arguments of the program say.

    On a machine that does other work, ``cpu_seconds`` is what can be compared: of all threads.
    """
    method, model, calibration, test, output = sys.argv[1:]
    samples = np.load(calibration)
    start, worked = time.perf_counter(), _worked()
    run = quantize(method, pathlib.Path(model), samples)
    seconds, work = time.perf_counter() - start, _worked() - worked
    peak = peak_megabytes()
    found = [run(sample[None]) for sample in np.load(test)]
    np.save(output, np.concatenate(found))
    figures = {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(work, 1),
        "megabytes": round(peak),
    }
    print(json.dumps(figures))


def _worked() -> float:
    """Return the seconds that processors worked for this program and those that it waited for."""
    return sum(os.times()[:4])


def peak_megabytes() -> float:
    """Return the most memory that this program had so far.

    Linux's own count, because ``getrusage`` begins with that of the program that started this one.
    """
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return float(line.split()[1]) / 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


def input_name(model: pathlib.Path) -> str:
    """Return the name of a model's only input."""
    import onnx

    return str(onnx.load(str(model)).graph.input[0].name)


class Reader:
    """The calibration data reader that quantizers for onnxruntime take, one sample at a time."""

    def __init__(self, name: str, samples: Array) -> None:
        self._name, self._samples, self._next = name, samples, 0

    def get_next(self) -> dict[str, Array] | None:
        """Return the next sample, or nothing at the end."""
        if self._next == len(self._samples):
            return None
        self._next += 1
        return {self._name: self._samples[self._next - 1 : self._next]}

    def rewind(self) -> None:
        """Start again."""
        self._next = 0

    def __iter__(self) -> "Reader":
        """Iterate over the samples that are left."""
        return self

    def __next__(self) -> dict[str, Array]:
        """Return the next sample."""
        found = self.get_next()
        if found is None:
            raise StopIteration
        return found

    def __len__(self) -> int:
        """Return how many samples there are."""
        return len(self._samples)
