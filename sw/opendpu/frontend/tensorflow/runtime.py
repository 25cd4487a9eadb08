# SPDX-License-Identifier: Apache-2.0
"""TensorFlow itself, quiet, and its functions as frozen graphs; needs ``opendpu[tensorflow]``."""

import os
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

from opendpu.frontend.tensorflow.graph_file import parse
from opendpu.frontend.tensorflow.graphdef import Node
from opendpu.ops.inference import reason_of
from opendpu_arch.errors import UnsupportedError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # before it is imported
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow
    from tensorflow.python.framework import convert_to_constants

tf: Any = tensorflow

_MOVED = ("Const", "Placeholder", "Identity", "ReadVariableOp", "NoOp")
"""Nodes whose names say nothing about the model's structure."""


def frozen(function: Any, label: str) -> tuple[dict[str, Node], list[str], list[str]]:
    """Return a concrete function with variables as constants, its inputs and its outputs.

    Returns
    -------
    The nodes; the placeholders; the results, ``node`` or ``node:1``.

    Raises
    ------
    UnsupportedError
        TensorFlow refuses to, for instance where tables of text are looked up.
    """
    try:
        made = convert_to_constants.convert_variables_to_constants_v2(function)
    except Exception as error:  # TensorFlow raises what its parts happen to raise
        raise UnsupportedError(
            f"{label}: TensorFlow cannot make constants of its variables: {reason_of(error)}"
        ) from error
    nodes = parse(made.graph.as_graph_def().SerializeToString(), label)
    inputs = [tensor.name.partition(":")[0] for tensor in made.inputs]
    outputs = [tensor.name.removesuffix(":0") for tensor in made.outputs]
    return nodes, inputs, outputs


def common_scope(nodes: Mapping[str, Node]) -> str:
    """Return the scopes that the names of all computing nodes begin with, ``model/``."""
    names = [node.name.split("/") for node in nodes.values() if node.op not in _MOVED]
    scope: list[str] = []
    while names and all(len(name) > len(scope) + 1 for name in names):
        found = Counter(name[len(scope)] for name in names)
        if len(found) > 1 or len(scope) + 2 >= max(map(len, names)):
            break
        scope += found
    return "".join(f"{part}/" for part in scope)
