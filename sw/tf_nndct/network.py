# SPDX-License-Identifier: Apache-2.0
"""Keras models as layers that call each other, models inside of models included.

Works with Keras 3 and with Keras 2 (``tf_keras``, ``TF_USE_LEGACY_KERAS=1``).
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from opendpu.frontend.tensorflow.runtime import tf
from opendpu_arch.errors import UnsupportedError

_NUMBER = re.compile(r"(_\d+)?$")


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a layer.

    Parameters
    ----------
    path
        The layer's name, those of the models that it is in in front; see :func:`paths_of`.
    layer
        The layer.
    inputs, outputs
        Numbers of tensors.
    shapes
        Of the inputs.
    results
        Shapes of the outputs.
    """

    path: str
    layer: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shapes: tuple[tuple[Any, ...], ...]
    results: tuple[tuple[Any, ...], ...]


@dataclasses.dataclass(frozen=True)
class Network:
    """All calls of a model in order, and the tensors that it has at its ends."""

    calls: tuple[Call, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shapes: dict[int, tuple[Any, ...]]


def is_model(layer: Any) -> bool:
    """Return whether a layer is a functional or Sequential model."""
    return hasattr(layer, "_nodes_by_depth") or hasattr(layer, "_functional")


def paths_of(model: Any) -> list[tuple[str, Any]]:
    """Return the layers of a model, those of inner models included, with their names.

    Keras numbers the names that it gives itself through a whole process; here they are numbered
    through the model, so that the same model has the same names when it is made again.
    """
    return list(_paths(model, ""))


def _paths(model: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    counts: dict[str, int] = {}
    for layer in model.layers:
        name = prefix + stable_name(layer, counts)
        yield name, layer
        if is_model(layer):
            yield from _paths(layer, f"{name}/")


def stable_name(layer: Any, counts: dict[str, int] | None = None) -> str:
    """Return a layer's name; one that Keras made is numbered by ``counts``."""
    kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(layer).__name__)
    made = kind.lower()
    plain = _NUMBER.sub("", layer.name)
    if plain.replace("_", "") != made.replace("_", ""):
        return str(layer.name)
    if counts is None:
        return plain
    number = counts.get(plain, 0)
    counts[plain] = number + 1
    return f"{plain}_{number}" if number else plain


def network_of(model: Any) -> Network:
    """Return the calls of a model.

    Raises
    ------
    UnsupportedError
        It is no functional or Sequential model, or has not been built yet.
    """
    if not isinstance(model, tf.keras.Model) and not hasattr(model, "layers"):
        raise UnsupportedError(
            f"{type(model).__name__} is no Keras model", code="OPTIMIZER_KERAS_MODEL_ERROR"
        )
    inner = _graph(model)
    if inner is None:
        raise UnsupportedError(
            f"model {getattr(model, 'name', model)!r} cannot be pruned: it must be a functional or "
            "Sequential model that knows its input",
            code="OPTIMIZER_UNSUPPORTED_OP_ERROR",
        )
    walk = _Walk({id(layer): path for path, layer in paths_of(model)})
    inputs = [walk.new(_shape(tensor)) for tensor in inner.inputs]
    outputs = walk.model(inner, inputs)
    return Network(tuple(walk.calls), tuple(inputs), tuple(outputs), walk.shapes)


def _graph(model: Any) -> Any:
    """Return what has the nodes of a model; Keras 3 keeps them apart in a Sequential one."""
    inner = getattr(model, "_functional", None)
    if inner is None and hasattr(model, "_nodes_by_depth"):
        inner = model
    return inner if inner is not None and getattr(inner, "inputs", None) else None


class _Walk:
    """Numbers tensors while it goes through models."""

    def __init__(self, paths: dict[int, str]) -> None:
        self.paths = paths
        self.calls: list[Call] = []
        self.shapes: dict[int, tuple[Any, ...]] = {}

    def new(self, shape: tuple[Any, ...]) -> int:
        """Return the number of another tensor."""
        number = len(self.shapes)
        self.shapes[number] = shape
        return number

    def model(self, inner: Any, inputs: Sequence[int]) -> list[int]:
        """Go through a model that is called with tensors; return its outputs."""
        known = {id(tensor): number for tensor, number in zip(inner.inputs, inputs, strict=True)}
        for depth in sorted(inner._nodes_by_depth, reverse=True):
            for node in inner._nodes_by_depth[depth]:
                given = tf.nest.flatten(_given(node))
                made = tf.nest.flatten(_made(node))
                if not given or all(id(tensor) in known for tensor in made):
                    continue
                found = self.call(_layer(node), [known[id(tensor)] for tensor in given], made)
                known |= {id(tensor): number for tensor, number in zip(made, found, strict=True)}
        return [known[id(tensor)] for tensor in inner.outputs]

    def call(self, layer: Any, given: list[int], made: list[Any]) -> list[int]:
        """Go through one call; return its outputs."""
        if is_model(layer) and _graph(layer) is not None:
            return self.model(_graph(layer), given)
        found = [self.new(_shape(tensor)) for tensor in made]
        self.calls.append(Call(
            self.paths.get(id(layer), layer.name), layer, tuple(given), tuple(found),
            tuple(self.shapes[number] for number in given),
            tuple(self.shapes[number] for number in found),
        ))  # fmt: skip
        return found


def _shape(tensor: Any) -> tuple[Any, ...]:
    return tuple(tensor.shape)


def _layer(node: Any) -> Any:
    return node.operation if hasattr(node, "operation") else node.layer


def _given(node: Any) -> Any:
    return node.input_tensors if hasattr(node, "input_tensors") and hasattr(node, "operation") \
        else node.keras_inputs  # fmt: skip


def _made(node: Any) -> Any:
    return node.outputs if hasattr(node, "outputs") else node.output_tensors
