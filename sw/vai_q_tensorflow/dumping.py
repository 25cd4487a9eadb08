# SPDX-License-Identifier: Apache-2.0
"""``vai_q_tensorflow dump``: golden results of a quantized graph, a folder for each batch."""

import argparse
import pathlib

from opendpu.export.golden import BATCH, dump_activations, dump_weights, make_folder
from opendpu.export.reference import IntegerReference
from opendpu.quantize import complete, is_quantized
from opendpu.quantize.samples import calibration_samples
from opendpu_arch.errors import UnsupportedError
from vai_q_tensorflow.graph import batches, input_function, load, names, shapes
from vai_q_tensorflow.options import DUMP, check

NAMES = {"weights": "_wquant", "bias": "_bquant"}


def dump(given: argparse.Namespace) -> None:
    """Write the tensors of some batches, each of one sample, and the weights.

    Raises
    ------
    DPUError
        An option is wrong, the graph is not quantized, data cannot be used, or a file cannot
        be written.
    """
    check(given, DUMP)
    inputs = names(given.input_nodes)
    loaded = load(
        given.input_frozen_graph, inputs, names(given.output_nodes),
        shapes(given.input_shapes, inputs),
    )  # fmt: skip
    if not is_quantized(loaded):
        raise UnsupportedError(
            f"{given.input_frozen_graph} is not quantized: vai_q_tensorflow quantize makes "
            "quantize_eval_model.pb", code="QUANTIZER_TF1_MISSING_QUANTIZE_INFO",
        )  # fmt: skip
    graph = complete(loaded)
    heads = [node.name for node in graph if node.kind == "data"]
    function = input_function(given.input_fn)
    folder = make_folder(pathlib.Path(given.output_dir))
    reference = IntegerReference(graph)
    for number, batch in enumerate(batches(function, given.max_dump_batches, heads)):
        samples = calibration_samples(graph, batch)
        place = make_folder(folder / BATCH.format(number))
        dump_weights(graph, place, names=NAMES)
        dump_activations(reference, samples.single(0), place, dump_float=bool(given.dump_float))
