# SPDX-License-Identifier: Apache-2.0
"""A trained network on the RTL: quantized with its data, compiled, run beside simulators."""

import numpy as np
import torch
from torch import nn

from opendpu.compiler.pipeline import compile as compile_graph
from opendpu.frontend.pytorch import load_torch
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner
from opendpu_arch.target import Target

SAMPLES = 64
"""Calibrated with; the first of them is run."""
DEVICES = ("iss", "cycle", "rtl")


def confirm(model: nn.Module, samples: torch.Tensor, target: Target) -> dict[str, int]:
    """Return the cycles of a trained network by the cycle model and on the RTL.

    ``samples`` are float32, batch first, as the network takes them.

    Raises
    ------
    SystemExit
        The RTL takes other cycles than the cycle model says, or computes other results than the
        functional simulator.
    """
    graph = load_torch(model, samples[:1])
    (source,) = (node.name for node in graph if node.kind == "data")
    quantized = quantize(graph, {source: samples[:SAMPLES].numpy()})
    compiled = compile_graph(quantized, target)
    results, cycles = {}, {}
    for device in DEVICES:
        with GraphRunner(compiled, device=device, target=target) as runner:
            (tensor,) = runner.get_input_tensors()
            image = np.moveaxis(samples[:1].numpy(), 1, -1).reshape(tensor.dims)
            results[device] = runner.run({tensor.name: np.ascontiguousarray(image)})
            statistics = runner.last_statistics
            cycles[device] = 0 if statistics is None else statistics.cycles
    for name, wanted in results["iss"].items():
        if not np.array_equal(wanted, results["rtl"][name]):
            raise SystemExit(f"{name} of {graph.name}: the RTL computes other than the ISS")
    if cycles["rtl"] != cycles["cycle"]:
        raise SystemExit(f"{graph.name}: {cycles['cycle']} cycles, but {cycles['rtl']} on the RTL")
    return {"quantized_cycles": cycles["cycle"], "rtl_cycles": cycles["rtl"]}
