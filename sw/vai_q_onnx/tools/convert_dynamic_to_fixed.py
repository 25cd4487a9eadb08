# SPDX-License-Identifier: Apache-2.0
"""From a model whose inputs have free sizes to one of fixed sizes.

python -m vai_q_onnx.tools.convert_dynamic_to_fixed --fix_shapes 'image:[1,3,224,224]' IN.onnx OUT.onnx
"""  # noqa: E501 - the command in one line

import re
from collections.abc import Mapping, Sequence

import onnx

from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.tools.command import loaded, run


def convert_dynamic_to_fixed(model: onnx.ModelProto, fix_shapes: str) -> onnx.ModelProto:
    """Return a model with the shapes of ``NAME:[SIZES];NAME:[SIZES]``; ``model`` stays as it is."""
    return fixed(model, parsed(fix_shapes))


def parsed(text: str) -> dict[str, list[int]]:
    """Return the shapes in a text.

    Raises
    ------
    UnsupportedError
        It is no list of names and sizes.
    """
    found = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        match = re.fullmatch(r"(.+?)\s*:\s*\[([\d,\s]+)\]", part)
        if not match:
            raise UnsupportedError(
                f"fix_shapes has {part!r}, but must be like 'image:[1,3,224,224];mask:[1,8]'"
            )
        found[match[1]] = [int(size) for size in match[2].split(",") if size.strip()]
    return found


def fixed(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
    """Return a model whose tensors have the shapes that follow from those of some.

    Raises
    ------
    UnsupportedError
        A name that is no input or output, or another number of axes.
    """
    made = loaded(model)
    items = {item.name: item for item in (*made.graph.input, *made.graph.output)}
    for name, shape in shapes.items():
        if name not in items:
            raise UnsupportedError(
                f"fix_shapes has {name!r}, but the model's inputs and outputs are "
                f"{', '.join(items)}"
            )
        dims = items[name].type.tensor_type.shape.dim
        if len(dims) != len(shape):
            raise UnsupportedError(f"{name!r} has {len(dims)} axes, not {len(shape)}")
        for dim, size in zip(dims, shape, strict=True):
            dim.dim_value = size
    for item in made.graph.output:
        if item.name not in shapes:  # what was open follows
            for dim in item.type.tensor_type.shape.dim:
                dim.ClearField("dim_param")
    del made.graph.value_info[:]
    return onnx.shape_inference.infer_shapes(made, data_prop=True)


if __name__ == "__main__":
    run(convert_dynamic_to_fixed, source="input_model", target="output_model",
        options=["--fix_shapes"])  # fmt: skip
