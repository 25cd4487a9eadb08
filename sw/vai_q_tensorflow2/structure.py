# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of Keras models in dictionaries and lists."""

from collections.abc import Sequence
from typing import Any

from opendpu.frontend.tensorflow.runtime import tf


def nested_like(model: Any, side: str, values: Sequence[Any]) -> Any:
    """Return values nested as the inputs or outputs of a model are.

    Parameters
    ----------
    model
        A Keras model; none, or one of a single chain of layers, for one value or a list.
    side
        ``inputs`` or ``outputs``.
    values
        One for each of them, in the model's order.
    """
    structure = structure_of(model, side)
    own = [id(tensor) for tensor in getattr(model, side, ())]
    if structure is None or len(set(own)) != len(values):
        return values[0] if len(values) == 1 else list(values)
    by_tensor = dict(zip(own, values, strict=True))
    return tf.nest.map_structure(lambda tensor: by_tensor[id(tensor)], structure)


def inputs_like(model: Any, inputs: Sequence[Any]) -> Any:
    """Return inputs of another model with the same names, in any order, as a model has them."""
    by_name = {name_of(tensor): tensor for tensor in inputs}
    own = [name_of(tensor) for tensor in model.inputs]
    if set(own) != set(by_name):
        return inputs[0] if len(inputs) == 1 else list(inputs)
    return nested_like(model, "inputs", [by_name[name] for name in own])


def name_of(tensor: Any) -> str:
    """Return the name of an input."""
    return str(tensor.name).partition(":")[0]


def structure_of(model: Any, side: str) -> Any:
    """Return the inputs or outputs of a functional model as they are nested, of Keras 3 or 2."""
    return getattr(model, f"_{side}_struct", getattr(model, f"_nested_{side}", None))


def is_nested(model: Any, side: str) -> bool:
    """Tell whether inputs or outputs are more than one tensor or a list: in a dictionary, say."""
    structure = structure_of(model, side)
    if isinstance(structure, list | tuple):
        return any(isinstance(part, list | tuple | dict) for part in structure)
    return isinstance(structure, dict)
