# SPDX-License-Identifier: Apache-2.0
"""``vitis_vai.quantize`` for frozen graphs, the form of TensorFlow 1."""

import importlib
import os
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from opendpu.cli.progress import progress
from opendpu.export import to_onnx
from opendpu.export.golden import make_folder
from opendpu.frontend.tensorflow.graphdef import Node, parse
from opendpu.frontend.tensorflow.importer import load_nodes
from opendpu.frontend.tensorflow.proto import Attr
from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Array
from opendpu.quantize import quantize_with_report
from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError, UnsupportedError
from vai_q_tensorflow2 import strategy as strategies
from vitis_vai.frozen import cut, quantized_graph

FILE = "quantize_eval_model.pb"
METHODS = {0: 0, 1: 1, 2: 1}
"""Methods of ``vai_q_tensorflow``, and those of the strategies; depthwise weights have no own."""
WITHOUT_EFFECT = frozenset({
    "adjust_shift_bias", "adjust_shift_cut", "align_concat", "align_pool", "arch_type",
    "dump_float", "dump_input_tensors", "gpu", "gpu_memory_fraction", "max_dump_batches",
    "replace_relu6", "replace_softmax", "scale_all_avgpool", "simulate_dpu", "skip_check",
})  # fmt: skip
"""Options of ``vai_q_tensorflow`` about what our quantizer does always, or never."""

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
        ``weight_bit``, ``activation_bit``, ``ignore_nodes``, ``do_cle`` and ``replace_sigmoid`` of
        ``vai_q_tensorflow``; more of its options are taken and have no effect.

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
    shapes = _shapes(input_shapes, heads)
    config = strategies.configuration(_strategy(method, kwargs), _listed(kwargs, "ignore_nodes"))
    function = _imported(input_fn) if isinstance(input_fn, str) else input_fn
    cut(graph_def, heads, tails)
    nodes = dict(parse(graph_def.SerializeToString(), label))
    nodes |= {name: Node(name, "Placeholder", (), _floats()) for name in heads}
    graph = load_nodes(
        nodes, label, pathlib.Path(label).stem, shapes,
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
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise UnsupportedError(f"{option} is empty, but must name nodes of the graph")
    return found


def _listed(options: Mapping[str, Any], name: str) -> list[str]:
    return [item.strip() for item in str(options.get(name, "")).split(",") if item.strip()]


def _shapes(text: str, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of input nodes, with a batch of 1 where it is open."""
    parts = [part for part in text.split(":") if part.strip()]
    if len(parts) != len(names):
        raise UnsupportedError(
            f"input_shapes has {len(parts)} shapes, but input_nodes {len(names)} nodes"
        )
    found = {}
    for name, part in zip(names, parts, strict=True):
        sizes = [size.strip() for size in part.split(",")]
        if not all(size.isdigit() for size in sizes[1:]) or not (
            sizes[0].isdigit() or sizes[0] in ("?", "-1")
        ):
            raise UnsupportedError(
                f"input_shapes has {part.strip()!r}, but must have sizes such as ?,224,224,3"
            )
        found[name] = (1, *map(int, sizes[1:]))
    return found


def _strategy(method: int, options: Mapping[str, Any]) -> dict[str, Any]:
    if method not in METHODS:
        raise UnsupportedError(f"method is {method!r}, but must be 0, 1 or 2")
    known = {"weight_bit", "activation_bit", "ignore_nodes", "do_cle", "replace_sigmoid"}
    unknown = sorted(set(options) - known - WITHOUT_EFFECT)
    if unknown:
        raise UnsupportedError(
            f"quantize has no option {unknown[0]!r}; there are {', '.join(sorted(known))}"
        )
    bits = {"weight_bit": int(options.get("weight_bit", 8)),
            "activation_bit": int(options.get("activation_bit", 8))}  # fmt: skip
    chosen = METHODS[method]
    return strategies.updated(strategies.default_strategy("pof2s"), {
        **bits, "input_bit": bits["activation_bit"], "bias_bit": bits["weight_bit"],
        "weight_method": chosen, "activation_method": chosen,
        "include_cle": bool(int(options.get("do_cle", 0))),
        "convert_sigmoid_to_hard_sigmoid": bool(int(options.get("replace_sigmoid", 0))),
    })  # fmt: skip


def _imported(name: str) -> InputFn:
    """Return a function by its name; scripts have it beside them."""
    module, _, function = name.rpartition(".")
    if not module:
        raise UnsupportedError(f"input_fn is {name!r}, but must be module.function")
    here = str(pathlib.Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UnsupportedError(f"input_fn {name!r} cannot be imported: {error}") from error
    if not callable(found):
        raise UnsupportedError(f"input_fn {name!r} is no function")
    return found  # type: ignore[no-any-return]


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
