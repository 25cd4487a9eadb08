# SPDX-License-Identifier: Apache-2.0
"""Quantization on the fly: a float module and a data loader to a quantized TorchScript module."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from pytorch_nndct.apis import torch_quantizer
from pytorch_nndct.messages import VAIQError
from wego_torch import messages

Calibrator = Callable[..., None]


def quantize(
    module: torch.nn.Module,
    input_shapes: Sequence[Sequence[int]],
    dataloader: Iterable[Any],
    calibrator: Calibrator,
    export_dataloader: Iterable[Any] | None = None,
    device: torch.device | str = torch.device("cpu"),  # noqa: B008 - as the guide has it
    output_dir: str | os.PathLike[str] = "quantize_result",
    bitwidth: int | None = None,
    quant_config_file: str | os.PathLike[str] | None = None,
    *args: Any,
    **kwargs: Any,
) -> torch.nn.Module:
    """Quantize a float module after training, for :func:`wego_torch.compile`.

    Parameters
    ----------
    module
        The float module.
    input_shapes
        Shapes of its inputs, batch in front.
    dataloader
        Batches to calibrate with; 100 to 1000 samples are enough.
    calibrator
        Called as ``calibrator(model, batch, index, device, *args, **kwargs)`` for every batch; it
        has to call ``model``. It is called once more to export the module.
    export_dataloader
        Its first batch is used for that; if not given, the first one of ``dataloader``.
    device
        Where the float module is computed; the CPU.
    output_dir
        Folder for what the quantizer writes.
    bitwidth, quant_config_file
        As of :class:`pytorch_nndct.apis.torch_quantizer`.

    Returns
    -------
    The quantized TorchScript module, which can be saved; or, of a module that is called with or
    returns what TorchScript has not (None, a dataclass), the quantizer's own.

    Raises
    ------
    WegoError
        An argument is wrong, or there is no batch.
    VAIQError
        The quantizer cannot take the module or the data.
    """
    if torch.device(device).type != "cpu":
        raise messages.error(
            "WEGO_TORCH_INVALID_ARGUMENT", f"device is {device}, but must be the CPU"
        )
    examples = tuple(_example(shape) for shape in input_shapes)
    settings: dict[str, Any] = {
        "output_dir": output_dir, "device": torch.device(device), "bitwidth": bitwidth,
        "quant_config_file": quant_config_file,
    }  # fmt: skip
    quantizer = torch_quantizer("calib", module, examples, **settings)
    first: list[Any] = []
    for index, batch in enumerate(dataloader):
        if not first:
            first.append(batch)
        calibrator(quantizer.quant_model, batch, index, device, *args, **kwargs)
    if export_dataloader is not None:
        first = [next(iter(export_dataloader), None)]
    if not first or first[0] is None:
        raise messages.error(
            "WEGO_TORCH_INVALID_ARGUMENT", "the data loader has no batch to calibrate with"
        )
    quantizer.export_quant_config()
    quantizer = torch_quantizer("test", module, examples, **settings)
    calibrator(quantizer.quant_model, first[0], 0, device, *args, **kwargs)
    try:
        made: torch.nn.Module = quantizer.export_torch_script(output_dir)
    except VAIQError as error:
        if error.code != "QUANTIZER_TORCH_NO_SCRIPT_MODEL":
            raise
        messages.say_once(f"quantize gives no TorchScript module: {error.text}")
        return quantizer.quant_model
    return made


def _example(shape: Sequence[int]) -> torch.Tensor:
    if not isinstance(shape, list | tuple) or not all(
        type(size) is int and size > 0 for size in shape
    ):
        raise messages.error(
            "WEGO_TORCH_INVALID_ARGUMENT",
            f"input_shapes has {shape!r}, but must have lists of sizes",
        )
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))
