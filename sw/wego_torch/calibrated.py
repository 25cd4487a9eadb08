# SPDX-License-Identifier: Apache-2.0
"""Float modules with the results of a quantizer that has calibrated them."""

import pathlib
from collections.abc import Callable

import torch

from pytorch_nndct import result
from pytorch_nndct.apis import torch_quantizer
from wego_torch import messages
from wego_torch.options import CompileOptions


def calibrated(
    module: torch.nn.Module, options: CompileOptions, show: Callable[[str], None]
) -> torch.nn.Module:
    """Return the quantized module for a float one.

    Raises
    ------
    WegoError
        The options do not say where the results are, or the module is none to be calibrated.
    VAIQError
        There are no results, or of another module.
    """
    folder = options.dynamo_options.quantize_result_path if options.dynamo_options else ""
    if not folder:
        raise messages.error(
            "WEGO_TORCH_INVALID_ARGUMENT",
            "dynamo=True needs dynamo_options=DynamoCompileOptions(quantize_result_path=…), the "
            "folder that the quantizer has written",
        )
    if isinstance(module, torch.jit.ScriptModule):
        raise messages.error(
            "WEGO_TORCH_INVALID_MODEL",
            "dynamo=True takes the float module, but was given a TorchScript one",
        )
    show("reading what the quantizer has written")
    examples = result.examples(pathlib.Path(folder), type(module).__name__)
    quantizer = torch_quantizer("test", module, examples, output_dir=folder, device="cpu")
    if result.is_finetuned(pathlib.Path(folder)):
        quantizer.load_ft_param()
    return quantizer.quant_model
