# SPDX-License-Identifier: Apache-2.0
"""``vai_q_tensorflow quantize``: a frozen graph in, quantized ones out."""

import argparse
import pathlib

from opendpu.cli.progress import progress
from opendpu.export import to_onnx
from opendpu.export.files import write_onnx
from opendpu.export.golden import make_folder
from opendpu.quantize import quantize_with_report
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError
from vai_q_tensorflow.configuration import configuration
from vai_q_tensorflow.graph import batches, input_function, load, names, shapes
from vai_q_tensorflow.options import QUANTIZE, check

EVAL, DEPLOY = "quantize_eval_model", "deploy_model"
FORMATS = ("pb", "onnx")


def quantize(given: argparse.Namespace) -> list[str]:
    """Quantize as the options say; return what to tell the user.

    Raises
    ------
    DPUError
        An option is wrong, the graph or its data cannot be used, or a file cannot be written.
    """
    if given.output_format not in FORMATS:
        raise UnsupportedError(
            f"output_format is {given.output_format!r}, but must be one of {', '.join(FORMATS)}"
        )
    check(given, QUANTIZE)
    config = configuration(given)
    inputs = names(given.input_nodes)
    sizes = shapes(given.input_shapes, inputs)
    function = input_function(given.input_fn)
    graph = load(given.input_frozen_graph, inputs, names(given.output_nodes), sizes)
    heads = [node.name for node in graph if node.kind == "data"]
    folder = make_folder(pathlib.Path(given.output_dir))
    with progress(f"quantizing {given.input_frozen_graph}") as show:
        data = batches(function, given.calib_iter, heads)
        found = quantize_with_report(graph, data, config, show=show)
    assert found.report is not None
    written = []
    if given.output_format == "onnx":
        written.append(folder / f"{EVAL}.onnx")
        write_onnx(to_onnx(found.graph), written[0])
    else:
        from vai_q_tensorflow.writing import graph_defs

        for name, content in zip((EVAL, DEPLOY), graph_defs(found.graph), strict=True):
            written.append(folder / f"{name}.pb")
            outputs.write(written[-1], content)
    return [*found.report.lines(), "*" * 20 + " Quantization Summary " + "*" * 20,
            *(f"INFO: Output: {path}" for path in written)]  # fmt: skip
