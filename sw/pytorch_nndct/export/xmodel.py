# SPDX-License-Identifier: Apache-2.0
"""Quantized networks as ``.xmodel``, and their tensors for comparison with a board."""

import pathlib
from collections.abc import Mapping

import numpy as np

from opendpu.ir import Array, to_xir
from opendpu_arch import outputs
from opendpu_arch.errors import DPUError
from pytorch_nndct import messages
from pytorch_nndct.folders import file_name, made
from pytorch_nndct.program import IntegerNetwork

CHECK_FOLDER = "deploy_check_data_int"


def write(
    network: IntegerNetwork, folder: pathlib.Path, name: str, last: Mapping[str, Array], *,
    deploy_check: bool,
) -> None:  # fmt: skip
    """Write ``<name>_int.xmodel``; a warning, and no file, for what is for no DPU.

    Raises
    ------
    VAIQError
        The graph has several samples, or cannot be written as XIR.
    OutputError
        A file cannot be written.
    """
    graph = network.quantized
    if not network.deployable:
        messages.warn(
            "QUANTIZER_TORCH_XMODEL_DEVICE",
            f"no .xmodel is written: no DPU runs the quantization of {name}, see its configuration",
        )
        return
    heads = [node for node in graph if node.kind == "data"]
    if not network.batched and any(array.shape[:1] not in ((), (1,)) for array in last.values()):
        sizes = ", ".join(f"{node.name}: {list(node.shape)}" for node in heads)
        raise messages.error(
            "QUANTIZER_TORCH_XMODEL_BATCHSIZE",
            f"{name} mixes the samples of its inputs ({sizes}); an .xmodel is for batch 1: trace "
            "it with input_args of one sample",
        )
    try:
        written = to_xir(graph)
    except DPUError as error:
        raise messages.error("QUANTIZER_TORCH_EXPORT_XMODEL", str(error)) from error
    path = made(folder) / f"{name}_int.xmodel"
    written.serialize(path)
    messages.note(f"the model to compile is {path}")
    if deploy_check:
        _dump(network, folder / CHECK_FOLDER, last)


def _dump(network: IntegerNetwork, folder: pathlib.Path, last: Mapping[str, Array]) -> None:
    """Write inputs, outputs and parameters as integers: raw bytes, and one number a line."""
    graph = network.quantized
    for name, values in network.integers(last).items():
        stem = made(folder) / file_name(name)
        outputs.write(stem.with_name(f"{stem.name}.bin"), np.ascontiguousarray(values).tobytes())
        text = "\n".join(map(str, values.ravel().tolist()))
        outputs.write(stem.with_name(f"{stem.name}.txt"), f"{text}\n")
    messages.note(f"tensors of {graph.name} are in {folder}")
