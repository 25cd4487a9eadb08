# SPDX-License-Identifier: Apache-2.0
"""From the arguments of ``torch_quantizer`` to what the engine takes."""

import dataclasses
import glob
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import torch

from nndct_shared.utils.option_util import get_option_value
from opendpu.frontend.pytorch import Traced
from opendpu.quantize import Override, QuantizeConfig, TensorSpec
from opendpu.quantize.config_json import switches
from opendpu.quantize.layers import is_layer
from opendpu.quantize.tensor_spec import BITS
from opendpu_arch.target import Target
from pytorch_nndct import messages
from pytorch_nndct.guard import as_the_guide_says

DEFAULT_BITS = 8
FLOAT = TensorSpec(number_format="float32")


def config_of(
    file: str | os.PathLike[str] | None,
    bitwidth: int | None,
    target: Target | None,
    *,
    switched: bool = True,
) -> QuantizeConfig:
    """Return what a configuration file says, or the guide's default: method ``diffs``.

    AMD's switches count if ``switched``; training does not know them.

    Raises
    ------
    VAIQError
        The bit width is none, or something is wrong in the file.
    """
    if bitwidth is not None and (type(bitwidth) is not int or bitwidth not in BITS):
        raise messages.error(
            "QUANTIZER_TORCH_ILLEGAL_BITWIDTH",
            f"bitwidth is {bitwidth!r}, but must be an integer in {BITS[0]}..{BITS[-1]}",
        )
    if file is None:
        config = QuantizeConfig.with_method("diffs")
        config = with_switches(config) if switched else config
        if bitwidth is not None and bitwidth != DEFAULT_BITS:
            config = dataclasses.replace(
                config,
                **{role: dataclasses.replace(getattr(config, role), bits=bitwidth)
                   for role in ("input", "weights", "bias", "activation")},
            )  # fmt: skip
        return dataclasses.replace(config, target=target)
    with as_the_guide_says():
        config = QuantizeConfig.from_json(file)
        config = with_switches(config, switches(file)) if switched else config
    widths = sorted({spec.bits for _, spec in config.specs() if spec.number_format == "int"})
    if bitwidth is not None and widths not in ([], [bitwidth]):
        messages.warn(
            "QUANTIZER_TORCH_BITWIDTH_MISMATCH",
            f"{os.fspath(file)} has {' and '.join(map(str, widths))} bits, the argument bitwidth "
            f"{bitwidth}; the file counts",
        )
    return dataclasses.replace(config, target=target)


def with_switches(config: QuantizeConfig, said: Collection[str] = ()) -> QuantizeConfig:
    """Return a configuration with AMD's switches, where a user has set them.

    ``said`` are switches of the guide's JSON that a file has: it counts then.
    """

    def chosen(name: str, key: str) -> Any:
        return None if key in said else get_option_value(f"nndct_{name}")

    found: dict[str, Any] = {}
    corrects = False if get_option_value("nndct_quant_opt") == 0 else None
    for field, name, key in (("cross_layer", "equalization", "include_cle"),
                             ("bias_correction", "param_corr", "include_bias_corr")):  # fmt: skip
        value = chosen(name, key)
        value = corrects if value is None and key not in said else value
        if value is not None:
            found[field] = bool(value)
    for field, name in (("relu6_to_relu", "convert_relu6_to_relu"), ("join_outputs",) * 2):
        if (value := chosen(name, name)) is not None:
            found[field] = bool(value)
    hard = [chosen(name, "convert_silu_to_hswish")
            for name in ("convert_silu_to_hswish", "convert_sigmoid_to_hsigmoid")]  # fmt: skip
    if any(value is not None for value in hard):
        found["activation_substitution"] = "hard" if any(hard) else "none"
    if get_option_value("nndct_diffs_mode") == "maxmin":
        found |= {role: dataclasses.replace(spec, method="max", statistic="modal")
                  for role in ("input", "weights", "activation")
                  if (spec := getattr(config, role)).method == "diffs"}  # fmt: skip
    return dataclasses.replace(config, **found)


def with_float_parts(config: QuantizeConfig, traced: Traced) -> QuantizeConfig:
    """Return a configuration that leaves in float what markers in a module say."""
    rules, floating = list(config.overrides), traced.floating
    layers = {node.name for node in traced.graph if node.name in floating.ops and is_layer(node)}
    if alone := layers - set(floating.results):  # what they give is quantized
        rules.append(Override(names=_patterns(alone), weights=FLOAT, bias=FLOAT))
    if floating.results:
        rules.append(
            Override(
                names=_patterns(floating.results),
                input=FLOAT, weights=FLOAT, bias=FLOAT, activation=FLOAT,
            )
        )  # fmt: skip
    return dataclasses.replace(config, overrides=tuple(rules))


def _patterns(names: Iterable[str]) -> tuple[str, ...]:
    """Return patterns that only these names match."""
    return tuple(glob.escape(name) for name in sorted(names))


def unwrapped(module: Any) -> torch.nn.Module:
    """Return the module that is to be quantized.

    Raises
    ------
    VAIQError
        It is no ``torch.nn.Module``.
    """
    if isinstance(module, torch.nn.DataParallel):
        messages.warn(
            "QUANTIZER_TORCH_DATA_PARALLEL",
            f"the wrapper torch.nn.DataParallel of {type(module.module).__name__} is left out",
        )
        return unwrapped(module.module)
    if not isinstance(module, torch.nn.Module):
        raise messages.error(
            "QUANTIZER_TORCH_PYTORCH_TRACE",
            f"module is {type(module).__name__}, but must be a torch.nn.Module",
        )
    return module


def chosen_device(device: Any) -> torch.device:
    """Return the device that a user asks for, or the CPU where it is missing."""
    wanted = torch.device(device)
    if wanted.type == "cuda" and not torch.cuda.is_available():
        messages.warn(
            "QUANTIZER_TORCH_CUDA_UNAVAILABLE", "CUDA (HIP) is not available; the CPU is used"
        )
        return torch.device("cpu")
    return wanted


def examples(input_args: Any) -> Any:
    """Return arguments, random tensors where they are a list of shapes."""
    shapes: list[Any] = list(input_args) if isinstance(input_args, list | tuple) else []
    if not shapes or not all(isinstance(one, list | tuple) for one in shapes):
        return input_args
    if not all(type(size) is int for one in shapes for size in one):
        return input_args
    generator = torch.Generator().manual_seed(0)
    return tuple(torch.randn(*one, generator=generator) for one in shapes)


def on_device(value: Any, device: torch.device) -> Any:
    """Return arguments on a device, with a warning where they are on another."""
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(value)
               if isinstance(leaf, torch.Tensor)]  # fmt: skip
    others = sorted({str(t.device) for t in tensors if t.device.type != device.type})
    if others:
        messages.warn(
            "QUANTIZER_TORCH_DEVICE_MISMATCH",
            f"input_args are on {' and '.join(others)}, the quantizer is on {device}; they are "
            "moved there",
        )
    return torch.utils._pytree.tree_map(
        lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, value
    )


def load_state(module: torch.nn.Module, file: str | os.PathLike[str]) -> None:
    """Load the parameters of a module from a file of ``torch.save``."""
    found: Mapping[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    module.load_state_dict(found.get("state_dict", found))
