# SPDX-License-Identifier: Apache-2.0
"""``Inspector``: which operator of a module goes where on a target, without data."""

import os
import pathlib
import sys
from typing import Any

import torch

from opendpu import api
from opendpu.frontend.pytorch import trace
from opendpu.inspect import check_format, inspect_graph, write_files
from opendpu.inspect.text import summary_lines
from opendpu_arch.errors import TargetError
from pytorch_nndct import messages
from pytorch_nndct.guard import as_the_guide_says
from pytorch_nndct.settings import chosen_device, on_device, unwrapped


class Inspector:
    """Inspects modules for one target.

    Parameters
    ----------
    name_or_fingerprint
        The DPU: its name, fingerprint, or an ``arch.json`` file.

    Raises
    ------
    VAIQError
        There is no such target.
    """

    def __init__(self, name_or_fingerprint: str) -> None:
        try:
            self._target = api.find_target(name_or_fingerprint)
        except TargetError as error:
            raise messages.error("QUANTIZER_TORCH_INSPECTOR_INPUT_FORMAT", str(error)) from error
        messages.note("Inspector is on.")

    def inspect(
        self,
        module: torch.nn.Module,
        input_args: Any,
        device: torch.device | str = torch.device("cuda"),  # noqa: B008 - as the guide has it
        output_dir: str | os.PathLike[str] = "quantize_result",
        verbose_level: int = 1,
        image_format: str | None = None,
    ) -> None:
        """Write ``inspect_<target>.txt``, and a picture of it if a format is given.

        Parameters
        ----------
        module
            Float module.
        input_args
            What it is called with; values may be random.
        device
            Where it is traced.
        output_dir
            Where files are written.
        verbose_level
            What is printed: 0 nothing, 1 what the CPU gets, 2 all operators.
        image_format
            ``svg`` or ``png``; nothing for no picture.

        Raises
        ------
        VAIQError
            The module cannot be traced, or there is no such format.
        """
        with as_the_guide_says():
            check_format(image_format)
            chosen = chosen_device(device)
            float_module = unwrapped(module).to(chosen)
            messages.note("=>Start to inspect model...")
            graph = trace(float_module, on_device(input_args, chosen)).graph
            found = inspect_graph(graph, self._target)
            files = write_files(found, pathlib.Path(output_dir), image_format)
        if verbose_level:
            lines = summary_lines(found, file=str(files[0]), every=verbose_level > 1)
            sys.stdout.write("\n".join(lines) + "\n")
        messages.note(f"=>Finish inspecting: {', '.join(map(str, files))}")
