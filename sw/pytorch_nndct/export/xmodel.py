# SPDX-License-Identifier: Apache-2.0
"""Quantized networks as ``.xmodel``, and their tensors for comparison with a board."""

import pathlib
from collections.abc import Mapping

from opendpu.cli.progress import progress
from opendpu.deploy_check import DEVICES
from opendpu.deploy_check import deploy_check as run_deploy_check
from opendpu.export.golden import dump_activations, dump_weights, make_folder
from opendpu.export.reference import IntegerReference
from opendpu.frontend.pytorch.markers import Floating
from opendpu.ir import Array, to_xir
from opendpu.runtime.devices import known_devices
from opendpu_arch.errors import DPUError
from opendpu_arch.target import Target
from pytorch_nndct import messages
from pytorch_nndct.program import DEFAULT_TARGET, IntegerNetwork

CHECK_FOLDER = "deploy_check_data_int"


def graph_name(module: str, floating: Floating) -> str:
    """Return what a module's graph is called in the name of its file.

    AMD's quantizer cuts a module at its stubs and numbers the graphs (``ResNet_0_int.xmodel``);
    here all is in one, the first.
    """
    return f"{module}_0" if floating.begins else module


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
    path = make_folder(folder) / f"{name}_int.xmodel"
    written.serialize(path)
    messages.note(f"the model to compile is {path}")
    if deploy_check:
        _check(network, folder / CHECK_FOLDER, name, network.arranged(last))


def _check(
    network: IntegerNetwork, folder: pathlib.Path, name: str, inputs: Mapping[str, Array]
) -> None:
    """Write the tensors of one sample, and compare reference, program and simulator on it."""
    graph = network.quantized
    make_folder(folder)
    dump_weights(graph, folder, names={"weights": "_weights", "bias": "_bias"})
    dump_activations(IntegerReference(graph), inputs, folder, dump_float=True)
    messages.note(f"tensors of {name} for one sample are in {folder}")
    target = network.target or Target.from_name(DEFAULT_TARGET)
    devices = [device for device in DEVICES if device in known_devices()]
    with progress(f"checking {name}") as show:
        found = run_deploy_check(graph, inputs, target=target, devices=devices, show=show)
    differing = [one for one in found if not one.agrees]
    if differing:
        raise messages.error(
            "QUANTIZER_TORCH_EXPORT_XMODEL", f"{name} differs: {'; '.join(map(str, differing))}"
        )
    messages.note(f"they are the same on {' and '.join(one.opinion for one in found)}")
