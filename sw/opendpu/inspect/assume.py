# SPDX-License-Identifier: Apache-2.0
"""Scales for a float graph without data: those of a sample that is made up.

The quantizer's own path is taken, with one sample, so that what it folds, substitutes and leaves in
float is what it does with real data; only the fix points differ.
"""

import numpy as np

from opendpu.ir import Array, FloatGraph, Node, QuantizedGraph
from opendpu.quantize import complete, is_quantized, quantize
from opendpu_arch.errors import DPUError, GraphError, TensorError
from opendpu_arch.target import Target

SEED = 0
RANGES = ((-1.0, 1.0), (0.0, 1.0), (1.0, 1.0))
"""Ranges of made-up inputs, tried in turn: a logarithm has no value for some of them."""


def with_scales(
    graph: FloatGraph, *, activation_substitution: str, target: Target | None = None
) -> QuantizedGraph:
    """Return a graph quantized by assumption; one that is quantized keeps its scales.

    Raises
    ------
    TensorError, GraphError
        The network gives no finite results for any of the made-up inputs.
    UnsupportedError
        The substitution is unknown, or an op cannot be evaluated.
    """
    if is_quantized(graph):
        return complete(graph)
    failed: DPUError | None = None
    for low, high in RANGES:
        try:
            return quantize(
                graph, _sample(graph, low, high), cross_layer=False, bias_correction=False,
                weight_correction=False, refinement=False,
                activation_substitution=activation_substitution, target=target,
            )  # fmt: skip
        except (TensorError, GraphError) as error:
            failed = failed or error
    assert failed is not None
    raise failed


def _sample(graph: FloatGraph, low: float, high: float) -> dict[str, Array]:
    """Return one sample: uniform real numbers; integers that any table has, 0 or 1."""
    rng = np.random.default_rng(SEED)
    return {n.name: _array(n, low, high, rng) for n in graph if n.kind == "data"}


def _array(node: Node, low: float, high: float, rng: np.random.Generator) -> Array:
    if node.type.dtype.kind == "f":
        return rng.uniform(low, high, node.shape).astype(node.type.dtype)
    return np.full(node.shape, max(low, 0.0)).astype(node.type.dtype)
