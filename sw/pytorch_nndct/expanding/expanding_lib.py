# SPDX-License-Identifier: Apache-2.0
"""Filled up networks as files: state, specification and ONNX, in a folder a multiple."""

import copy
import os
import pathlib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError
from pytorch_nndct.expanding.spec import ExpandingSpec
from pytorch_nndct.expanding.structured import ExpandingRunner

SPEC = "expanding_spec"
"""Name of the file with the specification."""


def expand_and_export(
    model_name: str,
    model: nn.Module,
    input_signature: torch.Tensor,
    channel_divisibles: Iterable[int],
    output_dir: str | os.PathLike[str],
    onnx_export_kwargs: Mapping[str, Any] | None = None,
    export_fp16_model: bool = True,
    exclude_nodes: Iterable[str | nn.Module] = (),
) -> None:
    """Write a network filled up to each of several multiples.

    Below ``output_dir`` each has a folder ``<model_name>_padded_<multiple>`` with
    ``<model_name>.pth``, ``expanding_spec``, ``<model_name>_fp32.onnx`` and ``…_fp16.onnx``.

    Raises
    ------
    UnsupportedError
        The network cannot be traced, or a multiple is below one.
    """
    runner = ExpandingRunner(model, input_signature)
    kept = list(exclude_nodes)
    for multiple in channel_divisibles:
        made, spec = runner.expand(multiple, kept)
        made.eval()
        folder = pathlib.Path(output_dir) / f"{model_name}_padded_{multiple}"
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(made.state_dict(), folder / f"{model_name}.pth")
        outputs.write(folder / SPEC, spec.serialize())
        options = dict(onnx_export_kwargs or {})
        _to_onnx(made, input_signature, folder / f"{model_name}_fp32.onnx", options)
        if export_fp16_model:
            half = copy.deepcopy(made).half()
            _to_onnx(half, input_signature.half(), folder / f"{model_name}_fp16.onnx", options)


def _to_onnx(
    model: nn.Module, inputs: torch.Tensor, path: pathlib.Path, options: dict[str, Any]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # AMD's arguments are those of the older exporter
        torch.onnx.export(
            model, (inputs,), str(path), dynamo=True, external_data=False, verbose=False, **options
        )


def load_expanded_model(
    expanding_spec_path: str | os.PathLike[str],
    model: nn.Module,
    input_signature: torch.Tensor,
    model_path: str | os.PathLike[str],
) -> nn.Module:
    """Return a network filled up as a file says, with the parameters of another.

    Raises
    ------
    ModelFormatError
        A file cannot be read, or is for another network.
    """
    try:
        text = pathlib.Path(expanding_spec_path).read_text(encoding="utf-8")
        state = torch.load(model_path)
    except OSError as error:
        raise ModelFormatError(str(error), code="OPTIMIZER_IO_ERROR") from error
    made = ExpandingRunner(model, input_signature).expand_from_spec(ExpandingSpec.from_string(text))
    made.load_state_dict(state)
    return made
