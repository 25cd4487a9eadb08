# SPDX-License-Identifier: Apache-2.0
"""The Inspector of the guide's chapter 3: which operators of a module a DPU takes, and why not.

>>> inspector = Inspector("DPUCZDX8G_ISA1_B4096")
>>> inspector.inspect(model, (torch.randn(1, 3, 224, 224),), device=torch.device("cpu"))
"""

import copy
import os
import pathlib
from typing import Any

import torch

from opendpu import api
from opendpu.frontend.pytorch import load_torch
from opendpu.inspect import FORMATS, Inspection, inspect_graph, write_files
from opendpu.inspect.result import CPU, DPU
from opendpu.inspect.text import said, summary_lines
from opendpu_arch.errors import DPUError, TargetError
from pytorch_nndct import messages

OUTPUT_DIR = "quantize_result"


class Inspector:
    """Inspects modules for a DPU.

    Parameters
    ----------
    name_or_fingerprint
        The target: a name such as ``DPUCZDX8G_ISA1_B4096``, a fingerprint (``0x...``), or an
        ``arch.json``.

    Raises
    ------
    VAIQError
        There is no such target; QUANTIZER_TORCH_INSPECTOR_INPUT_FORMAT.
    """

    def __init__(self, name_or_fingerprint: str) -> None:
        try:
            self._target = api.find_target(str(name_or_fingerprint))
        except TargetError as error:
            raise messages.error("QUANTIZER_TORCH_INSPECTOR_INPUT_FORMAT", error.message) from error

    def inspect(
        self,
        module: torch.nn.Module,
        input_args: Any,
        device: torch.device | str = torch.device("cuda"),  # noqa: B008 - as the guide has it
        output_dir: str | os.PathLike[str] = OUTPUT_DIR,
        verbose_level: int = 1,
        image_format: str | None = None,
    ) -> Inspection:
        """Write ``inspect_<target>.txt``, and a picture with its source where one is asked for.

        Parameters
        ----------
        module
            The float module; it is not changed.
        input_args
            What it is called with: a tensor or a tuple of arguments. Their values do not matter.
        device
            Where the module is; without a GPU, the CPU is taken.
        output_dir
            Where files are written.
        verbose_level
            0 prints nothing, 1 the operators on the CPU, 2 all operators.
        image_format
            ``svg`` or ``png``, or nothing for no picture.

        Raises
        ------
        VAIQError
            The format is unknown, or the module cannot be traced.
        """
        if image_format is not None and image_format not in FORMATS:
            raise messages.error(
                "QUANTIZER_TORCH_INSPECTOR_OUTPUT_FORMAT",
                f"image_format is {image_format!r}, but must be one of {', '.join(FORMATS)}",
            )
        if verbose_level:
            messages.note("=>Start to inspect model...")
        found = inspect_graph(_traced(module, input_args, device), self._target)
        files = write_files(found, output_dir, image_format)
        if verbose_level:
            _tell(found, files, every=verbose_level > 1)
        return found


def _traced(module: torch.nn.Module, input_args: Any, device: torch.device | str) -> Any:
    """Return the float graph of a module, traced on the CPU."""
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        messages.warn(
            "QUANTIZER_TORCH_CUDA_UNAVAILABLE", "there is no GPU; the module is traced on the CPU"
        )
    if isinstance(module, torch.nn.DataParallel):
        messages.warn(
            "QUANTIZER_TORCH_DATA_PARALLEL", "the module is taken out of torch.nn.DataParallel"
        )
        module = module.module
    if any(tensor.device.type != "cpu" for tensor in module.state_dict().values()):
        module = copy.deepcopy(module).cpu()
    given = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, input_args)
    try:
        return load_torch(module, given)
    except DPUError as error:
        if error.code is None or not error.code.startswith("QUANTIZER_TORCH_"):
            raise
        raise messages.error(error.code, error.message) from error


def _tell(found: Inspection, files: list[pathlib.Path], *, every: bool) -> None:
    for node in found.on(CPU):
        if not node.runs_in:
            messages.note(f"{node.op_type} {node.name!r} is assigned to the CPU: {said(node)}")
    for node in found.on(DPU):
        if node.of_scales:
            messages.warn(
                "QUANTIZER_TORCH_INSPECTOR_PATTERN",
                f"{node.op_type} {node.name!r} is assigned to the DPU, but scales from calibration "
                "may send it to the CPU",
            )
    messages.note("\n".join(summary_lines(found, file=str(files[0]), every=every)))
    messages.note(f"=>Finish inspecting. Written: {', '.join(map(str, files))}")
