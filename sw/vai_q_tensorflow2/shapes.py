# SPDX-License-Identifier: Apache-2.0
"""The guide's ``input_shape``: with or without the batch, for one input or several.

Scripts also write it as ``vai_q_tensorflow`` takes it: ``"?,224,224,3"``, a colon between inputs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from opendpu.frontend.binding import OpenSizesError
from opendpu.ir import Array
from opendpu_arch.errors import UnsupportedError
from vai_q_tensorflow2.structure import name_of

CODE = "QUANTIZER_TF2_INVALID_INPUT_SHAPE"


def input_shapes(model: Any, given: Any) -> dict[str, tuple[int, ...]]:
    """Return shapes by input, batch 1.

    Raises
    ------
    UnsupportedError
        A shape that does not fit.
    """
    if given is None:
        return {}
    if isinstance(given, str):
        given = _written(given)
    names = [name_of(tensor) for tensor in model.inputs]
    ranks = [len(tensor.shape) for tensor in model.inputs]
    if isinstance(given, Mapping):
        pairs = [(str(name), list(shape)) for name, shape in given.items()]
    else:
        several = any(isinstance(part, Sequence) for part in given)
        shapes = [list(part) for part in given] if several else [list(given)]
        pairs = list(zip(names, shapes, strict=False))
        if len(shapes) != len(names):
            raise UnsupportedError(
                f"input_shape has {len(shapes)} shapes, but the model has the inputs "
                f"{', '.join(names)}", code=CODE,
            )  # fmt: skip
    found = {}
    for name, shape in pairs:
        if name not in names:
            raise UnsupportedError(f"input_shape has {name!r}, which is no input", code=CODE)
        rank = ranks[names.index(name)]
        whole = [1, *shape] if len(shape) == rank - 1 else [1, *shape[1:]]
        if len(whole) != rank or not all(isinstance(n, int) and n > 0 for n in whole):
            raise UnsupportedError(
                f"input_shape of {name!r} is {shape}, but must have {rank - 1} sizes, and maybe a "
                "batch in front", code=CODE,
            )  # fmt: skip
        found[name] = tuple(whole)
    return found


def shapes_of_data(model: Any, batch: Mapping[str, Array]) -> dict[str, tuple[int, ...]]:
    """Return the shapes that samples have of inputs that leave sizes open, batch 1."""
    found = {}
    for tensor in model.inputs:
        name, own = name_of(tensor), tuple(tensor.shape)
        if None in own[1:] and name in batch and batch[name].ndim == len(own):
            found[name] = (1, *batch[name].shape[1:])
    return found


def left_open(call: str, error: OpenSizesError) -> UnsupportedError:
    """Return an error about open sizes that says how a call takes them: ``quantize_model``."""
    shapes = {name: [None, *shape[1:]] for name, shape in error.examples.items()}
    given: Any = next(iter(shapes.values())) if len(shapes) == 1 else shapes
    return UnsupportedError(
        f"{error.what}\nGive their sizes, for example: {call}(…, input_shape={given})", code=CODE
    )


def _written(text: str) -> list[list[int | None]]:
    """Return the shapes in a string; ``?`` is a size that is open."""
    try:
        return [
            [None if size.strip() in ("?", "None", "-1") else int(size) for size in one.split(",")]
            for one in text.split(":")
        ]
    except ValueError:
        raise UnsupportedError(
            f"input_shape is {text!r}, but must be sizes with commas between them, '?' for the "
            "batch", code=CODE,
        ) from None  # fmt: skip
