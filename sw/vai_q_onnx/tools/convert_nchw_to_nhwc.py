# SPDX-License-Identifier: Apache-2.0
"""From a model that takes images as NCHW to one that takes NHWC.

python -m vai_q_onnx.tools.convert_nchw_to_nhwc --input NCHW.onnx --output NHWC.onnx
"""

import onnx

from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.layout import images_of, turn
from vai_q_onnx.tools.command import loaded, run


def convert_nchw_to_nhwc(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose inputs of four axes are NHWC; ``model`` stays as it is.

    Raises
    ------
    UnsupportedError
        No input has four axes.
    """
    made = loaded(model)
    inputs = images_of(made)
    if not inputs:
        raise UnsupportedError(f"model {made.graph.name!r} has no input of four axes")
    turn(made, inputs)
    return made


if __name__ == "__main__":
    run(convert_nchw_to_nhwc, source="--input", target="--output")
