# SPDX-License-Identifier: Apache-2.0
"""``vitis_vai.quantize``: post-training quantization on the way to WeGO."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

from opendpu.frontend.tensorflow.keras_file import read_keras
from opendpu_arch import outputs
from vai_q_tensorflow2 import VitisQuantizer
from vitis_vai.frozen_quantization import quantize_frozen

Path = str | os.PathLike[str]


def quantize(*args: Any, **kwargs: Any) -> Any:
    """Quantize a Keras model, or a frozen graph.

    With ``input_frozen_graph``, or a ``.pb`` file first, it is the function of TensorFlow 1:
    :func:`vitis_vai.frozen_quantization.quantize_frozen`. Else it is that of TensorFlow 2:
    :func:`quantize_model`.
    """
    first = args[0] if args else None
    frozen = isinstance(first, str | os.PathLike) and os.fspath(first).endswith(".pb")
    if frozen or "input_frozen_graph" in kwargs:
        return quantize_frozen(*args, **kwargs)
    return quantize_model(*args, **kwargs)


def quantize_model(
    input_float: Any, quantize_strategy: str = "pof2s",
    custom_quantize_strategy: Path | Mapping[str, Any] | None = None, calib_dataset: Any = None,
    calib_steps: int | None = None, calib_batch_size: int | None = None,
    save_path: Path = "./vai_wego/quantized.h5", verbose: int = 0, add_shape_info: bool = False,
    dump: bool = False, dump_output_dir: Path = "./vai_dump/",
) -> Any:  # fmt: skip
    """Quantize a Keras model, save it, and return it.

    Parameters
    ----------
    input_float
        The model, or its file.
    quantize_strategy, custom_quantize_strategy
        As of :class:`~vai_q_tensorflow2.quantizer.VitisQuantizer`.
    calib_dataset, calib_steps, calib_batch_size, verbose, add_shape_info
        As of its ``quantize_model``.
    save_path
        Where the model goes; folders are made.
    dump, dump_output_dir
        Whether and where golden results of weights are written.

    Raises
    ------
    DPUError
        As of ``VitisQuantizer``; a file that cannot be read or written.
    """
    path = pathlib.Path(save_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    outputs.check(path)
    model = input_float
    if isinstance(model, str | os.PathLike):
        model = read_keras(os.fspath(model))
    quantizer = VitisQuantizer(model, quantize_strategy, custom_quantize_strategy)
    made = quantizer.quantize_model(
        calib_dataset=calib_dataset, calib_steps=calib_steps, calib_batch_size=calib_batch_size,
        verbose=verbose, add_shape_info=add_shape_info,
    )  # fmt: skip
    made.save(path)
    if dump:
        VitisQuantizer.dump_model(made, output_dir=dump_output_dir, weights_only=True)
    return made
