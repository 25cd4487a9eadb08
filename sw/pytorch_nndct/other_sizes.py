# SPDX-License-Identifier: Apache-2.0
"""A calibrated network for images of another size: the same layers with the same constants.

Super resolution, say, is calibrated with small patches and deployed for whole frames.
"""

import dataclasses

import numpy as np

from opendpu.ir import Array, FloatGraph, QuantizedGraph
from opendpu.quantize import QuantizeConfig, quantize_with_report
from opendpu_arch.errors import DPUError


def resized(
    calibrated: QuantizedGraph, graph: FloatGraph, config: QuantizeConfig
) -> QuantizedGraph | None:
    """Return a calibrated graph for the sizes of another float graph of the same module.

    Parameters
    ----------
    calibrated
        What calibration made.
    graph
        The float graph of the other sizes.
    config
        What ``calibrated`` was made with.

    Returns
    -------
    Nothing, if the graphs differ in more than sizes: in their ops, or in the shapes of constants.
    """
    plain = dataclasses.replace(
        config, cross_layer=False, bias_correction=False, refinement=False,
        weight_correction=False, finetune=None,
    )  # fmt: skip
    random, samples = np.random.default_rng(config.seed), {}
    for node in graph:
        if node.kind == "data":
            made: Array = random.standard_normal(node.shape).astype(node.type.dtype)
            samples[node.name] = made
    try:
        found = quantize_with_report(graph.copy(), samples, plain).graph
    except DPUError:
        return None
    if {n.name: n.kind for n in found} != {n.name: n.kind for n in calibrated}:
        return None
    for node in found:
        other = calibrated[node.name]
        if node.kind == "fix":
            node.type = node.type.with_quantization(other.quantization)
        if node.value is not None and other.value is not None:
            if node.shape != other.shape:
                return None
            node.value = other.value
    return found
