# SPDX-License-Identifier: Apache-2.0
"""Batch normalization and per-channel scales, folded into the layer before them."""

import numpy as np
import numpy.typing as npt

from opendpu.ir import Draft, Node

Array = npt.NDArray[np.float64]

LAYERS = (
    "conv2d", "depthwise-conv2d", "transposed-conv2d", "transposed-depthwise-conv2d",
    "inner-product",
)  # fmt: skip
"""Kinds with weights and bias."""


def fold(draft: Draft) -> None:
    """Fold every ``batchnorm`` and ``scale`` into the layer before it, in place.

    One that stands alone on a feature map becomes a 1x1 ``depthwise-conv2d``.
    """
    for node in draft:
        if node.kind not in ("batchnorm", "scale"):
            continue
        factor, offset = _affine(draft, node)
        source = draft[node.inputs["input"][0]]
        alone = len(draft.consumers(source.name)) == 1 and source.name not in draft.outputs
        if source.kind in LAYERS and alone and source.shape[-1] == factor.size:
            _into_layer(draft, source, factor, offset)
            _take_over(draft, node.name, source.name)
        elif len(node.shape) == 4:
            _to_depthwise(draft, node, factor, offset)
    draft.prune()
    draft.sort()


def _affine(draft: Draft, node: Node) -> tuple[Array, Array]:
    """Return factor and offset of each channel."""

    def values(arg: str) -> Array:
        value = draft[node.inputs[arg][0]].value
        assert value is not None
        return value.astype(np.float64)

    if node.kind == "scale":
        factor = values("scale")
        return factor, values("bias") if "bias" in node.inputs else np.zeros_like(factor)
    deviation = np.sqrt(values("moving_var") + node.attrs["epsilon"])
    factor = values("gamma") / deviation
    return factor, values("beta") - values("moving_mean") * factor


def _into_layer(draft: Draft, layer: Node, factor: Array, offset: Array) -> None:
    weights = draft[layer.inputs["weights"][0]].value
    assert weights is not None
    per_output = factor.reshape((-1,) + (1,) * (weights.ndim - 1))
    scaled = weights * (factor if "depthwise" in layer.kind else per_output)
    bias = bias_of(draft, layer) * factor + offset
    set_parameters(draft, layer, scaled, bias)


def bias_of(draft: Draft, layer: Node) -> Array:
    """Return the bias of a layer, zeros if it has none."""
    if not layer.inputs.get("bias"):
        return np.zeros(layer.shape[-1])
    value = draft[layer.inputs["bias"][0]].value
    assert value is not None
    return value.astype(np.float64)


def set_parameters(draft: Draft, layer: Node, weights: Array, bias: Array) -> None:
    """Give a layer other weights and another bias; the old constants stay for other users."""
    for arg, array in (("weights", weights), ("bias", bias)):
        old = layer.inputs.get(arg, [])
        if old and len(draft.consumers(old[0])) == 1:
            constant = draft[old[0]]
            constant.value, constant.shape = array.astype(np.float32), array.shape
        else:
            layer.inputs[arg] = [draft.add_const(f"{layer.name}_{arg}", array).name]
    draft.sort()


def _take_over(draft: Draft, name: str, source: str) -> None:
    """Let ``source`` do the work of node ``name``, and take its name if that is an output."""
    output = name in draft.outputs
    draft.replace(name, source)
    del draft.nodes[name]
    if output:
        draft.rename(source, name)


def _to_depthwise(draft: Draft, node: Node, factor: Array, offset: Array) -> None:
    weights = draft.add_const(f"{node.name}_weights", factor.reshape(1, 1, 1, -1))
    bias = draft.add_const(f"{node.name}_bias", offset)
    node.kind = "depthwise-conv2d"
    node.inputs = {"input": node.inputs["input"], "weights": [weights.name], "bias": [bias.name]}
    node.attrs = {"kernel": [1, 1], "stride": [1, 1], "pad": [0, 0, 0, 0], "pad_mode": "FLOOR"}
