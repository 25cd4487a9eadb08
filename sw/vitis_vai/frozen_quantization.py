# SPDX-License-Identifier: Apache-2.0
"""``vitis_vai.quantize`` for frozen graphs, the form of TensorFlow 1."""

import argparse
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from opendpu.cli.progress import progress
from opendpu.export import to_onnx
from opendpu.export.golden import make_folder
from opendpu.frontend.tensorflow.graph_file import parse
from opendpu.frontend.tensorflow.graphdef import Node
from opendpu.frontend.tensorflow.importer import load_nodes
from opendpu.frontend.tensorflow.proto import Attr
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Array
from opendpu.quantize import quantize_with_report
from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError, UnsupportedError
from vai_q_tensorflow.configuration import configuration
from vai_q_tensorflow.graph import BAD_INPUT, input_function, names, shapes
from vai_q_tensorflow.options import QUANTIZE, SESSION
from vitis_vai.frozen import cut, quantized_graph

FILE = "quantize_eval_model.pb"
OPTIONS = {
    option.name: option for option in (*QUANTIZE, *SESSION)
    if option.name not in ("method", "calib_iter", "output_format")
}  # fmt: skip
"""What ``kwargs`` may have: options of ``vai_q_tensorflow quantize``."""

Path = str | os.PathLike[str]
InputFn = Callable[[int], Mapping[str, Any]]


def quantize_frozen(
    input_frozen_graph: Path = "", input_nodes: str = "", input_shapes: str = "",
    output_nodes: str = "", input_fn: str | InputFn = "", method: int = 1, calib_iter: int = 100,
    output_dir: Path = "./quantize_results", **kwargs: Any,
) -> Any:  # fmt: skip
    """Quantize a frozen graph, write ``quantize_eval_model.pb``, and return the graph.

    Parameters
    ----------
    input_frozen_graph
        The file.
    input_nodes, output_nodes
        Names, separated by commas: what is between is quantized, other nodes stay as they are.
    input_shapes
        Of the input nodes, sizes separated by commas, nodes by colons; ``?`` for any batch.
    input_fn
        ``module.function``, or the function: it takes the number of a step, and returns what
        placeholders get.
    method
        0: nothing saturates; 1 and 2: the least differences.
    calib_iter
        How many steps.
    output_dir
        Folder for the graph.
    kwargs
        More options of ``vai_q_tensorflow quantize``: ``weight_bit``, ``activation_bit``,
        ``nodes_bit``, ``nodes_method``, ``ignore_nodes``, ``do_cle``, ``replace_sigmoid`` …

    Raises
    ------
    ModelFormatError
        The file cannot be read.
    UnsupportedError
        An argument is wrong, ``input_fn`` cannot be imported, or a layer cannot be converted.
    TensorError
        What ``input_fn`` returns is not what the graph takes.
    """
    graph_def = _read(input_frozen_graph)
    label = os.fspath(input_frozen_graph)
    heads, tails = _names(input_nodes, "input_nodes"), _names(output_nodes, "output_nodes")
    sizes = shapes(input_shapes, heads)
    config = configuration(_options(method, kwargs))
    function = input_function(input_fn) if isinstance(input_fn, str) else input_fn
    cut(graph_def, heads, tails)
    nodes = dict(parse(graph_def.SerializeToString(), label))
    nodes |= {name: Node(name, "Placeholder", (), _floats()) for name in heads}
    graph = load_nodes(
        nodes, label, pathlib.Path(label).stem, sizes,
        inputs={name: name for name in heads}, outputs={name: name for name in tails},
    )  # fmt: skip
    with progress("quantizing") as show:
        data = _values(graph_def, heads, function, calib_iter)
        found = quantize_with_report(graph, data, config, show=show)
    model = to_onnx(found.graph, exact=not config.deployable())
    order = [item.name for item in model.graph.input]
    made = quantized_graph(graph_def, order, [item.name for item in model.graph.output], model)
    outputs.write(make_folder(output_dir) / FILE, made.SerializeToString())
    return made


def _read(path: Path) -> Any:
    made = tf.compat.v1.GraphDef()
    try:
        made.ParseFromString(pathlib.Path(path).read_bytes())
    except OSError as error:
        raise ModelFormatError(
            f"{os.fspath(path)!r} cannot be read as frozen graph: {error.strerror}"
        ) from None
    except Exception as error:  # protobuf's own, of which several versions have several
        raise ModelFormatError(f"{os.fspath(path)} is not a GraphDef: {error}") from None
    return made


def _names(text: str, option: str) -> list[str]:
    found = names(text)
    if not found:
        raise UnsupportedError(
            f"{option} is empty, but must name nodes of the graph", code=BAD_INPUT
        )
    return found


def _options(method: int, given: Mapping[str, Any]) -> argparse.Namespace:
    """Return all options of the command: those given, and the defaults of the others."""
    unknown = sorted(set(given) - set(OPTIONS))
    if unknown:
        raise UnsupportedError(
            f"quantize has no option {unknown[0]!r}; there are {', '.join(sorted(OPTIONS))}"
        )
    values = {name: option.default for name, option in OPTIONS.items()}
    read = {name: OPTIONS[name].type(value) for name, value in given.items()}
    return argparse.Namespace(**{**values, **read, "method": method})


def _floats() -> dict[str, Any]:
    """Return the attributes of a placeholder of numbers of float32 and any shape."""
    kind = Attr()
    kind.type = tf.float32.as_datatype_enum
    return {"dtype": kind}


def _values(
    graph_def: Any, heads: Sequence[str], function: InputFn, steps: int
) -> Iterator[dict[str, Array]]:
    """Yield what input nodes are in each step."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        wanted = {name: graph.get_tensor_by_name(f"{name}:0") for name in heads}
        with tf.compat.v1.Session(graph=graph) as session:
            for step in range(steps):
                with tf.Graph().as_default():  # functions may build graphs of their own
                    given = function(step)
                feeds = {f"{name.partition(':')[0]}:0": value for name, value in given.items()}
                yield session.run(wanted, feeds)
