# SPDX-License-Identifier: Apache-2.0
"""Keras models with zeros where channels were, and models without these channels."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Array
from tf_nndct import importance
from tf_nndct.groups import Removed, Slice, Structure, gone
from tf_nndct.network import is_model, paths_of

STATISTICS = ("moving_mean", "moving_variance", "alpha")
"""Weights whose values do not matter behind zeros."""


def least_important(
    model: Any, structure: Structure, widths: Mapping[str, int]
) -> dict[str, list[int]]:
    """Return the units to remove, so that widths are met; the first of equals stay."""
    layers = dict(paths_of(model))

    def values(item: Slice) -> Array | None:
        if item.weight in STATISTICS:
            return None
        return np.asarray(getattr(layers[item.path], item.weight))

    return importance.least_important(values, structure, widths)


def sparse_model(model: Any, structure: Structure, removed: Removed, *, hold: bool = True) -> Any:
    """Return a copy with zeros in all weights of removed channels.

    Parameters
    ----------
    hold
        Whether the zeros stay in training.
    """
    made = copied(model)
    layers = dict(paths_of(made))
    masks: dict[tuple[str, str], Array] = {}
    for item in structure.slices:
        cut = gone(item.channels, removed)
        if not cut or item.weight in STATISTICS:
            continue
        shape = tuple(getattr(layers[item.path], item.weight).shape)
        mask = masks.setdefault((item.path, item.weight), np.ones(shape, np.float32))
        mask[(slice(None),) * item.axis + (cut,)] = 0
    for (path, weight), mask in masks.items():
        variable = getattr(layers[path], weight)
        variable.assign(np.asarray(variable) * mask)
        if hold:
            _hold(variable, mask)
    return made


def slim_model(model: Any, structure: Structure, removed: Removed) -> Any:
    """Return a copy without removed channels."""
    named = {id(layer): path for path, layer in paths_of(model)}

    def narrowed(layer: Any) -> Any:
        config = layer.get_config()
        channels = structure.sizes.get(named.get(id(layer), ""))
        if channels is not None:
            left = len(channels) - len(gone(channels, removed))
            for key in ("filters", "units"):
                if key in config:
                    config[key] = left
            if "target_shape" in config:
                config["target_shape"] = (*config["target_shape"][:-1], left)
        return type(layer).from_config(config)

    made = copied(model, narrowed)
    slices: dict[tuple[str, str], list[Slice]] = {}
    for item in structure.slices:
        slices.setdefault((item.path, item.weight), []).append(item)
    for (path, layer), (_, other) in zip(paths_of(model), paths_of(made), strict=True):
        if is_model(layer):
            continue
        values = {id(v): np.asarray(v) for v in layer.weights}
        for weight in {weight for owner, weight in slices if owner == path}:
            key = id(getattr(layer, weight))
            for item in slices[path, weight]:
                values[key] = np.delete(values[key], gone(item.channels, removed), item.axis)
        other.set_weights([values[id(variable)] for variable in layer.weights])
    return made


def copied(model: Any, clone: Callable[[Any], Any] | None = None) -> Any:
    """Return a copy of a model with the same weights; ``clone`` may make other layers."""
    keras = importlib.import_module(type(model).__module__.partition(".")[0])
    if keras is tf or not hasattr(keras, "models"):
        keras = tf.keras

    def made(layer: Any) -> Any:
        if is_model(layer):
            return copied(layer, clone)
        return clone(layer) if clone else type(layer).from_config(layer.get_config())

    found = keras.models.clone_model(model, clone_function=made)
    if clone is None:
        found.set_weights(model.get_weights())
    return found


def _hold(variable: Any, mask: Array) -> None:
    """Let a variable keep its zeros: optimizers apply its constraint behind every step."""
    before = getattr(variable, "constraint", None)

    def keep(value: Any) -> Any:
        return (before(value) if before is not None else value) * mask

    try:
        variable.constraint = keep
    except AttributeError:  # TensorFlow's own variables, of Keras 2
        variable._constraint = keep
