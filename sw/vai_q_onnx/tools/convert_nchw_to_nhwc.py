# SPDX-License-Identifier: Apache-2.0
"""From a model that takes images as NCHW to one that takes NHWC.

python -m vai_q_onnx.tools.convert_nchw_to_nhwc --input NCHW.onnx --output NHWC.onnx
"""

import onnx
from onnx import helper

from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.tools.command import loaded, run

ORDER = (0, 2, 3, 1)
"""Axes of NCHW in the order of NHWC."""
BACK = (0, 3, 1, 2)


def convert_nchw_to_nhwc(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose inputs of four axes are NHWC; ``model`` stays as it is.

    Raises
    ------
    UnsupportedError
        No input has four axes.
    """
    made = loaded(model)
    constants = {item.name for item in made.graph.initializer}
    inputs = [
        item for item in made.graph.input
        if item.name not in constants and len(item.type.tensor_type.shape.dim) == len(ORDER)
    ]  # fmt: skip
    if not inputs:
        raise UnsupportedError(f"model {made.graph.name!r} has no input of four axes")
    turned = []
    for item in inputs:
        name = f"{item.name}_nchw"
        for node in made.graph.node:
            node.input[:] = [name if one == item.name else one for one in node.input]
        dims = item.type.tensor_type.shape.dim
        sizes = [onnx.TensorShapeProto.Dimension() for _ in ORDER]
        for size, axis in zip(sizes, ORDER, strict=True):
            size.CopyFrom(dims[axis])
        del dims[:]
        dims.extend(sizes)
        turned.append(helper.make_node("Transpose", [item.name], [name], name, perm=BACK))
    nodes = [*turned, *made.graph.node]
    del made.graph.node[:]
    made.graph.node.extend(nodes)
    return made


if __name__ == "__main__":
    run(convert_nchw_to_nhwc, source="--input", target="--output")
