# SPDX-License-Identifier: Apache-2.0
"""Block floating point, to see what it would cost: no DPU computes with it.

>>> quantized_model = bfp.quantize_model(model, inputs, dtype="mx6")

AMD's examples give a file instead of a type, ``bfp.quantize_model(model, inputs, "config.json")``;
of its keys ``data_format`` and ``bfp_bitwidth`` choose the format, and the others must say what it
is anyway.
"""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import torch

from opendpu.frontend.pytorch import trace
from opendpu.ir import Array
from opendpu.quantize import QuantizeConfig, TensorSpec, quantize_with_report
from opendpu_arch.errors import UnsupportedError
from pytorch_nndct.guard import as_the_guide_says
from pytorch_nndct.program import IntegerNetwork
from pytorch_nndct.quant_model import IntegerModel
from pytorch_nndct.settings import unwrapped

DTYPES = ("mx6", "mx9")
FILES = (".json", ".yaml", ".yml")
"""Endings of configuration files."""
FIXED = {"bfp_tile_size": 8, "round_mode": "round_even", "approx_mode": "no_approx"}
"""What a file may say of ``bfp16``, as it is."""
KEYS = ("data_format", "bfp_bitwidth", *FIXED, "training")


def quantize_model(
    model: torch.nn.Module,
    inputs: Any,
    dtype: str = "mx6",
    config_file: str | os.PathLike[str] | None = None,
) -> torch.nn.Module:
    """Return a module that computes with inputs, weights and results in block floating point.

    Blocks have exponents of their own, so that there is nothing to calibrate.

    Parameters
    ----------
    model
        Float module; quantized as it is in evaluation mode.
    inputs
        What it is called with; values may be random.
    dtype
        ``mx6`` or ``mx9``, see :class:`opendpu.ir.NumberFormat`; or the path of a file.
    config_file
        JSON or flat YAML with ``data_format``: ``bfp`` (16 bits), ``mx6`` or ``mx9``.

    Raises
    ------
    UnsupportedError
        An unknown ``dtype``, or a file that cannot be read or says what there is not.
    VAIQError
        The module cannot be traced.
    """
    if config_file is None and str(dtype).endswith(FILES):
        config_file = dtype
    if config_file is not None:
        number_format = _format_in(pathlib.Path(config_file))
    elif dtype in DTYPES:
        number_format = dtype
    else:
        raise UnsupportedError(f"dtype is {dtype!r}, but must be one of {', '.join(DTYPES)}")
    module = unwrapped(model)
    with as_the_guide_says():
        traced = trace(module, inputs)
        spec = TensorSpec(number_format=number_format)
        config = QuantizeConfig(
            input=spec, weights=spec, bias=spec, activation=spec, cross_layer=False,
            bias_correction=False, refinement=False, weight_correction=False,
        )  # fmt: skip
        samples: dict[str, Array] = {}
        for node in traced.graph:
            if node.kind == "data":
                made = torch.zeros(node.shape, dtype=torch.float32)
                samples[node.name] = made.numpy().astype(node.type.dtype)
        graph = quantize_with_report(traced.graph, samples, config).graph
    network = IntegerNetwork(graph)
    return IntegerModel(module, traced, lambda: network)


def _format_in(path: pathlib.Path) -> str:
    """Return the number format that a file asks for."""
    given = _read(path)
    unknown = [key for key in given if key not in KEYS]
    if unknown:
        raise UnsupportedError(f"{path} has no key {unknown[0]!r}; keys are: {', '.join(KEYS)}")
    kind, bits = given.get("data_format", "bfp"), given.get("bfp_bitwidth", 16)
    if kind in DTYPES:
        return str(kind)
    if (kind, bits) != ("bfp", 16):
        raise UnsupportedError(
            f"{path}: data_format {kind!r} with {bits} bits is unknown; there are 'bfp' with 16, "
            f"{' and '.join(map(repr, DTYPES))}"
        )
    for key, value in FIXED.items():
        if given.get(key, value) != value:
            raise UnsupportedError(f"{path}: {key} is {given[key]!r}, but must be {value!r}")
    return "bfp16"


def _read(path: pathlib.Path) -> Mapping[str, Any]:
    """Return the keys of a file; YAML as far as it is a line a key."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            found = json.loads(text)
        else:
            lines = [line.partition("#")[0].strip() for line in text.splitlines()]
            pairs = [line.partition(":") for line in lines if line.strip("-.")]
            found = {key.strip(): _scalar(value.strip()) for key, _, value in pairs}
    except (OSError, ValueError) as error:
        raise UnsupportedError(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise UnsupportedError(f"{path} is no object with keys")
    return found


def _scalar(text: str) -> Any:
    """Return a number, or a text without its quotes."""
    return int(text) if text.isdigit() else text.strip("'\"")
