# SPDX-License-Identifier: Apache-2.0
"""Frozen graphs: what the command line says of them, and float graphs made of them."""

import dataclasses
import importlib
import pathlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from opendpu.frontend.tensorflow.graph_file import read
from opendpu.frontend.tensorflow.graphdef import Node
from opendpu.frontend.tensorflow.importer import INPUT, load_nodes
from opendpu.ir import Array, FloatGraph
from opendpu_arch.errors import DPUError, TensorError, UnsupportedError

BAD_INPUT = "QUANTIZER_TF1_INVALID_INPUT"
BAD_FUNCTION = "QUANTIZER_TF1_INVALID_INPUT_FN"
BAD_SHAPES = "QUANTIZER_TF1_LENGTH_MISMATCH"


def names(text: str) -> list[str]:
    """Return names that commas are between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def shapes(text: str, nodes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return shapes by node; a batch that is open becomes 1.

    Raises
    ------
    UnsupportedError
        There are not as many as nodes, or a size is no number above 0.
    """
    given = [part for part in text.split(":") if part.strip()]
    if given and len(given) != len(nodes):
        raise UnsupportedError(
            f"input_shapes has {len(given)} shapes, but input_nodes has {len(nodes)} names",
            code=BAD_SHAPES,
        )
    found = {}
    for node, part in zip(nodes, given, strict=False):
        sizes = [size.strip() for size in part.split(",")]
        if sizes and sizes[0] in ("?", "-1"):
            sizes[0] = "1"
        if not all(size.isdecimal() and int(size) for size in sizes):
            raise UnsupportedError(
                f"input_shapes has {part!r}, but must have numbers above 0 with commas between, "
                "the first one may be '?'",
                code=BAD_SHAPES,
            )
        found[node] = tuple(map(int, sizes))
    return found


def read_nodes(path: str) -> dict[str, Node]:
    """Return the nodes of a frozen graph.

    Raises
    ------
    DPUError
        The file is missing or no frozen graph.
    """
    if not pathlib.Path(path).is_file():
        why = "is no file" if pathlib.Path(path).exists() else "no such file"
        raise UnsupportedError(f"input_frozen_graph {path}: {why}", code=BAD_INPUT)
    return read(pathlib.Path(path))


def load(
    path: str, inputs: Sequence[str], outputs: Sequence[str],
    sizes: Mapping[str, tuple[int, ...]],
) -> FloatGraph:  # fmt: skip
    """Return the part of a frozen graph that is between some nodes.

    Raises
    ------
    DPUError
        A node is missing, or as of :func:`opendpu.frontend.tensorflow.importer.load_nodes`.
    """
    nodes = read_nodes(path)
    for what, wanted in (("input_nodes", inputs), ("output_nodes", outputs)):
        missing = [name for name in wanted if name not in nodes]
        if missing:
            raise UnsupportedError(
                f"{what} has {missing[0]!r}, but {path} has no such node; vai_q_tensorflow inspect "
                "says which there are", code=BAD_INPUT,
            )  # fmt: skip
    for name in inputs:
        if nodes[name].op != INPUT:  # quantization begins inside of the graph
            nodes[name] = _placeholder(nodes[name])
    ends = {name: name for name in outputs} or None
    return load_nodes(nodes, path, pathlib.Path(path).stem, dict(sizes), outputs=ends)


def _placeholder(node: Node) -> Node:
    """Return an input in the place of a node, of the type of its result."""
    (*_, kind) = [None, *(node.attrs[key] for key in ("T", "dtype") if key in node.attrs)]
    attrs = {} if kind is None else {"dtype": kind}
    return dataclasses.replace(node, op=INPUT, inputs=(), attrs=attrs)


def input_function(text: str) -> Callable[[int], Mapping[str, Any]]:
    """Return the function ``module.function``; modules are looked for in the current folder too.

    Raises
    ------
    UnsupportedError
        It cannot be imported.
    """
    module, _, function = text.rpartition(".")
    if not module or not function:
        given = f"is {text!r}, but must be" if text else "has to be given:"
        raise UnsupportedError(f"input_fn {given} module.function", code=BAD_FUNCTION)
    sys.path.insert(0, str(pathlib.Path.cwd()))
    try:
        found: Any = getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever a user's module happens to raise
        raise UnsupportedError(
            f"input_fn is {text!r}, which cannot be imported: {type(error).__name__}: {error}",
            code=BAD_FUNCTION,
        ) from error
    finally:
        sys.path.pop(0)
    if not callable(found):
        raise UnsupportedError(f"input_fn is {text!r}, which is no function", code=BAD_FUNCTION)
    return found


def batches(
    function: Callable[[int], Mapping[str, Any]], steps: int, inputs: Sequence[str]
) -> Iterator[dict[str, Array]]:
    """Yield what a function gives for each step, as arrays by input.

    Raises
    ------
    TensorError
        It raises an exception, or gives no dictionary, not all inputs, or no numbers.
    """
    for step in range(steps):
        given = _called(function, step)
        if not isinstance(given, Mapping):
            raise TensorError(
                f"input_fn gives {type(given).__name__} for step {step}, but must give a "
                "dictionary of arrays by node", code=BAD_FUNCTION,
            )  # fmt: skip
        found = {str(name).partition(":")[0]: value for name, value in given.items()}
        missing = [name for name in inputs if name not in found]
        if missing:
            raise TensorError(
                f"input_fn gives {', '.join(found) or 'nothing'} for step {step}, but not input "
                f"{missing[0]!r}", code=BAD_FUNCTION,
            )  # fmt: skip
        yield {name: _array(found[name], name, step) for name in inputs}


def _called(function: Callable[[int], Any], step: int) -> Any:
    try:
        return function(step)
    except DPUError:
        raise
    except Exception as error:  # whatever a user's function happens to raise
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise TensorError(
            f"input_fn cannot be called for step {step}: {type(error).__name__}: {error} "
            f"({place.filename}:{place.lineno})", code=BAD_FUNCTION,
        ) from error  # fmt: skip


def _array(value: Any, name: str, step: int) -> Array:
    try:
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            return array.astype(np.float32)
        kind = f"elements of type {array.dtype}"
    except (TypeError, ValueError) as error:
        kind = f"what is no array: {error}"
    raise TensorError(
        f"input_fn gives {kind} for step {step} and input {name!r}, but must give numbers",
        code=BAD_FUNCTION,
    )
