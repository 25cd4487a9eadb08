# SPDX-License-Identifier: Apache-2.0
"""``vai_q_onnx.dump_model``: golden results of a quantized model."""

import os

import onnx

from opendpu.export.golden import BATCH, dump_activations, dump_weights, make_folder
from opendpu.export.reference import IntegerReference
from opendpu.frontend import load_onnx
from opendpu.frontend.model_file import read_model
from opendpu.quantize import complete, is_quantized
from opendpu.quantize.samples import calibration_samples
from opendpu_arch.errors import UnsupportedError
from vai_q_onnx.calibration import RandomDataReader, Reader, batches_of
from vai_q_onnx.sizes import of_random_data

NAMES = {"weights": "_weights", "bias": "_bias"}
"""How the guide calls constants, behind the layer's name."""


def dump_model(
    model: str | os.PathLike[str] | onnx.ModelProto,
    dump_data_reader: Reader | None = None,
    output_dir: str | os.PathLike[str] = "./dump_results",
    dump_float: bool = False,
    *,
    random_data_reader_input_shape: object = None,
) -> None:
    """Write the integers of weights and of every layer's result.

    The files are those of :mod:`opendpu.export.golden`. The first batch goes to ``output_dir``
    itself, with the weights; others to ``dump_results_1`` and so on in it.

    Parameters
    ----------
    model
        A quantized model, of this module or another.
    dump_data_reader
        Gives the inputs, one sample at a time; none stands for one of random numbers.
    output_dir
        The folder.
    dump_float
        Whether real numbers are written too, of what is not quantized as well.
    random_data_reader_input_shape
        Shapes of random data where the model leaves sizes open.

    Raises
    ------
    UnsupportedError
        The model is not quantized, or a batch has more than one sample.
    OutputError
        A file cannot be written.
    """
    source = read_model(model)
    sizes: dict[str, tuple[int, ...]] = {}
    if dump_data_reader is None:
        sizes = of_random_data(source.proto, random_data_reader_input_shape)
    graph = load_onnx(source, sizes)
    if not is_quantized(graph):
        raise UnsupportedError(f"model {graph.name!r} is not quantized: quantize_static makes one")
    reader = dump_data_reader
    if reader is None:  # readers may have a length, and be empty so far
        reader = RandomDataReader(graph, count=1)
    quantized = complete(graph)
    folder = make_folder(output_dir)
    dump_weights(quantized, folder, names=NAMES)
    reference = IntegerReference(quantized)
    for number, batch in enumerate(batches_of(reader)):
        samples = calibration_samples(quantized, batch)
        if samples.count != 1:
            raise UnsupportedError(
                f"batch {number} of the dump_data_reader has {samples.count} samples, but must "
                "have 1, as the DPU takes them"
            )
        place = make_folder(folder / BATCH.format(number)) if number else folder
        inputs = samples.stacked(0, 1) if all(samples.rows.values()) else samples.single(0)
        dump_activations(reference, inputs, place, dump_float=dump_float)
