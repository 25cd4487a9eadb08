# SPDX-License-Identifier: Apache-2.0
"""The Inspector of the guide's chapter 3: which operators of a module a DPU takes, and why not.

>>> inspector = Inspector("DPUCZDX8G_ISA1_B4096")
>>> inspector.inspect(model, (torch.randn(1, 3, 224, 224),), device=torch.device("cpu"))
"""

import os
import pathlib
from typing import Any

import torch

from opendpu import api
from opendpu.frontend.pytorch import load_torch
from opendpu.inspect import Inspection, check_format, inspect_graph, write_files
from opendpu.inspect.result import CPU, DPU
from opendpu.inspect.text import said, summary_lines
from opendpu_arch.errors import TargetError
from pytorch_nndct import messages
from pytorch_nndct.guard import as_the_guide_says
from pytorch_nndct.remarks import remark
from pytorch_nndct.settings import chosen_device, on_device, unwrapped

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
            The float module.
        input_args
            What it is called with: a tensor or a tuple of arguments. Their values do not matter.
        device
            Where the module is traced; without a GPU, that is the CPU.
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
        with as_the_guide_says():
            check_format(image_format)
            chosen = chosen_device(device)
            if verbose_level:
                messages.note("=>Start to inspect model...")
            float_module = unwrapped(module).to(chosen)
            graph = load_torch(float_module, on_device(input_args, chosen))
            if verbose_level:
                remark(float_module, graph)
            found = inspect_graph(graph, self._target)
        files = write_files(found, output_dir, image_format)
        if verbose_level:
            _tell(found, files, every=verbose_level > 1)
        return found


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
