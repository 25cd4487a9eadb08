# SPDX-License-Identifier: Apache-2.0
"""``wego_torch.compile``: quantized modules of every form to modules that run on the DPU."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram

from opendpu.api import chosen_target
from opendpu.cli.progress import progress
from opendpu.frontend.pytorch import Traced
from opendpu.frontend.pytorch.model import program_traced
from opendpu.frontend.requantizing import left_quantizers
from opendpu.quantize import complete, is_quantized
from opendpu_arch.errors import DPUError
from opendpu_arch.extensions import Extension
from pytorch_nndct.export import torch_script
from pytorch_nndct.quant_model import CalibrationModel, IntegerModel
from wego_torch import messages
from wego_torch.build import compiled
from wego_torch.calibrated import calibrated
from wego_torch.module import scripted
from wego_torch.options import CompileOptions, InputMeta
from wego_torch.script import compile_script, name_of

Show = Callable[[str], None]


def compile(
    module: torch.jit.ScriptModule | torch.nn.Module | ExportedProgram,
    options: CompileOptions | None = None,
) -> Any:
    """Compile the quantized parts of a module for the DPU; PyTorch computes the rest, in place.

    Parameters
    ----------
    module
        A quantized TorchScript module (of ``wego_torch.quantize``, or the quantizer's
        ``export_torch_script``), a ``quant_model`` of the quantizer in mode ``test`` or a module
        with some inside, an exported program that is quantized (PT2E); with ``options.dynamo`` a
        float module that the quantizer has calibrated.
    options
        See :class:`CompileOptions`.

    Returns
    -------
    A TorchScript module where the module is called with tensors only, else a module. It is called
    as the one given, with any number of samples where samples are independent.

    Raises
    ------
    WegoError
        The module is not quantized, or an option does not fit it.
    TargetError, UnsupportedError, ToolError
        There is no such DPU or device.
    """
    options = options or CompileOptions()
    if not isinstance(options, CompileOptions):
        raise messages.error(
            "WEGO_TORCH_INVALID_ARGUMENT",
            f"options is {type(options).__name__}, but must be CompileOptions",
        )
    options.say_what_is_without_effect()
    label = "program" if isinstance(module, ExportedProgram) else name_of(module)
    with progress(f"compiling {label}") as show:
        if isinstance(module, ExportedProgram):
            return _program(module, options, show)
        if not isinstance(module, torch.nn.Module):
            raise messages.error(
                "WEGO_TORCH_INVALID_MODEL",
                f"module is {type(module).__name__}, but must be a torch.nn.Module, a TorchScript "
                "module or an exported program",
            )
        if options.dynamo:
            module = calibrated(module, options, show)
        _check_inputs(module, options.inputs_meta)
        if isinstance(module, torch.jit.ScriptModule):
            return compile_script(module, options, show)
        return _eager(module, options, show)


def _eager(module: torch.nn.Module, options: CompileOptions, show: Show) -> Any:
    """Return a module whose quantized modules are compiled."""
    made = _replaced(module, options, show)
    if made is module:
        calibrating = any(isinstance(part, CalibrationModel) for part in module.modules())
        raise messages.error(
            "WEGO_TORCH_INVALID_MODEL",
            f"module {name_of(module)} "
            + (
                "is being calibrated: give the quant_model of quant_mode 'test'"
                if calibrating
                else "is not quantized: wego_torch.quantize does that, or give torch.compile("
                'backend="opendpu") calibration data in its options'
            ),
        )
    return made


def _replaced(module: torch.nn.Module, options: CompileOptions, show: Show) -> Any:
    if isinstance(module, IntegerModel):
        network = module.network
        names = [name for name in module.traced.signature.inputs if name is not None]
        found = compiled(
            network.quantized, names, options, batched=module.traced.batched, show=show
        )
        return scripted(found, module.traced)
    if isinstance(module, torch.jit.ScriptModule):
        return module
    children = {name: _replaced(child, options, show) for name, child in module.named_children()}
    if all(child is module._modules[name] for name, child in children.items()):
        return module
    made = copy.copy(module)
    made._modules = {**module._modules, **children}
    return made


def _program(program: ExportedProgram, options: CompileOptions, show: Show) -> Any:
    scaled = Extension.SCALED in chosen_target(options.target).extensions
    traced: Traced = program_traced(program, any_scale=scaled)
    if left := left_quantizers(traced.graph):
        raise messages.error(
            "WEGO_TORCH_INVALID_MODEL",
            "the exported program is quantized with scales that the target does not compute with: "
            f"the first of {len(left)} operators is {left[0].origin}; give CompileOptions a target "
            'with the extension scaled, or torch.compile(backend="opendpu") calibration data',
        )
    if not is_quantized(traced.graph):
        raise messages.error(
            "WEGO_TORCH_INVALID_MODEL",
            "the exported program is not quantized: quantize it (PT2E, or wego_torch.quantize on "
            'its module), or give torch.compile(backend="opendpu") calibration data in its options',
        )
    names = [name for name in traced.signature.inputs if name is not None]
    found = compiled(complete(traced.graph), names, options, batched=traced.batched, show=show)
    return scripted(found, traced)


def _check_inputs(module: torch.nn.Module, inputs: Any) -> None:
    """Call a module with zeros of the shapes that the user says; WegoError where that fails."""
    metas: list[InputMeta] = list(inputs)
    if not metas:
        return
    try:
        with torch.no_grad(), torch_script.in_one_line():
            module(*(torch.zeros(meta.input_shape, dtype=meta.dtype) for meta in metas))
    except (DPUError, RuntimeError, TypeError, ValueError) as error:
        shapes = ", ".join(f"{meta.dtype} {list(meta.input_shape)}" for meta in metas)
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
        raise messages.error(
            "WEGO_TORCH_INVALID_ARGUMENT",
            f"inputs_meta says {shapes}, with which {name_of(module)} cannot be called: {reason}",
        ) from error
