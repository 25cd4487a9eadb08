# SPDX-License-Identifier: Apache-2.0
"""Scales of weights and biases, from their values."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from opendpu.ir import Graph, Quantization
from opendpu.quantize.layers import by_output, parameters_of, weights_of
from opendpu.quantize.scales.grid import best_fix_point
from opendpu.quantize.scales.search import Rows, search
from opendpu.quantize.scales.template import has_fix_point, template_of
from opendpu.quantize.tensor_spec import TensorSpec

PER_ROW = 1 << 15
"""Values of a row that are looked at, at most, spread evenly; the range is that of all."""

WIDE = 16
"""Biases of more bits have the scale of the accumulator, as integer engines need it."""

HEADROOM = 1.25
"""How much larger than its bias a range is made for it, as the bias is corrected later."""

_SIMPLE = ("minmse", "mse", "diffs", "nonoverflow", "max")


def weight_scales(graph: Graph, specs: Mapping[str, TensorSpec]) -> dict[str, Quantization]:
    """Return the quantization of the weights of every layer that has quantized ones."""
    return {
        name: _of_weights(graph, name, spec) for name, spec in specs.items() if spec.is_quantized
    }


def _of_weights(graph: Graph, name: str, spec: TensorSpec) -> Quantization:
    layer, template = graph[name], template_of(spec)
    value = weights_of(graph, layer)
    if spec.number_format != "int":
        return template
    if has_fix_point(spec) and spec.method in _SIMPLE:
        return template.at(best_fix_point(value, method=spec.method, template=template))
    if spec.granularity == "per_channel":
        found = search(_thinned(by_output(layer, value)), spec, template)
        return dataclasses.replace(found, axis=parameters_of(layer).outputs % value.ndim)
    return search(_thinned(value.reshape(1, -1)), spec, template)


def bias_scale(
    value: np.ndarray,
    spec: TensorSpec,
    weights: Quantization | None,
    source: Quantization | None,
) -> Quantization:
    """Return the quantization of a bias, where the DPU's shifts do not matter.

    Biases of more than 16 bits have the scale of the products: the weights' times the input's.
    """
    template = template_of(spec)
    if spec.number_format != "int":
        return template
    if _is_of_products(spec, weights, source):
        assert weights is not None and source is not None
        scale = tuple(s * source.scale[0] for s in weights.scale)
        return dataclasses.replace(template, scale=scale, axis=0 if len(scale) > 1 else None)
    if has_fix_point(spec) and spec.method in _SIMPLE:
        return template.at(best_fix_point(value, method=spec.method, template=template))
    return search(Rows.of(value.reshape(1, -1)), spec, template)


def weights_for_bias(
    value: np.ndarray,
    spec: TensorSpec,
    weights: Quantization | None,
    source: Quantization | None,
) -> Quantization | None:
    """Return the quantization of weights, with larger scales where a bias needs them.

    A bias with the scale of the products may be too large for its bits, as beside weights of
    16 bits, or tiny ones: it would saturate. Weights lose bits to that, which costs less.
    """
    if not _is_of_products(spec, weights, source):
        return weights
    assert weights is not None and source is not None
    sizes = np.abs(value.ravel()) if len(weights.scale) > 1 else np.abs(value).max(keepdims=True)
    least = HEADROOM * sizes.ravel().astype(np.float64) / 2 ** (spec.bits - 1)
    factors = least / (np.array(weights.scale) * source.scale[0])
    if not (factors > 1).any():
        return weights
    if has_fix_point(spec):
        factors = 2.0 ** np.ceil(np.log2(np.maximum(factors, 1)))
    pairs = zip(weights.scale, np.maximum(factors, 1), strict=True)
    return dataclasses.replace(weights, scale=tuple(float(scale * f) for scale, f in pairs))


def _is_of_products(
    spec: TensorSpec, weights: Quantization | None, source: Quantization | None
) -> bool:
    """Tell whether a bias has the scale of its layer's products."""
    known = weights is not None and source is not None and len(source.scale) == 1
    return known and spec.number_format == "int" and spec.bits > WIDE


def _thinned(values: np.ndarray) -> Rows:
    """Return some values of each row, with the range of all."""
    step = -(-values.shape[1] // PER_ROW)
    whole = Rows.of(values)
    return dataclasses.replace(whole, values=values[:, ::step])
