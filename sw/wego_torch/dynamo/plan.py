# SPDX-License-Identifier: Apache-2.0
"""How a graph is computed: parts on the DPU, operators of PyTorch between them."""

import contextlib
import dataclasses
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from opendpu.api import chosen_target
from opendpu.cli.progress import progress
from opendpu.frontend.pytorch.batch import computes_first, single_sample
from opendpu.frontend.pytorch.capture import capture
from opendpu_arch.errors import UnsupportedError
from wego_torch import messages
from wego_torch.dynamo.bound import Body
from wego_torch.dynamo.each_sample import EachSample
from wego_torch.dynamo.mixed import around_mixing
from wego_torch.dynamo.mutation import functional
from wego_torch.dynamo.options import Options
from wego_torch.dynamo.part import DpuPart, float_part
from wego_torch.dynamo.partition import (
    NOTHING,
    PART,
    complex_operators,
    decomposed,
    on_cpu,
    split,
    unknown_operators,
    untranslated,
)
from wego_torch.dynamo.precision import (
    Types,
    in_single,
    is_single,
    single,
    typed,
    types_of,
    without_autocast,
)
from wego_torch.dynamo.rebatch import rebatched
from wego_torch.dynamo.samples import Samples, samples_in

Show = Callable[[str], None]

_MOST = 3
"""Reasons that are shown."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """A graph with compiled parts.

    Parameters
    ----------
    module
        Computes one sample, or all at once; its DPU parts are :class:`DpuPart`.
    batched
        Whether it computes one of the samples that it is given.
    types
        Those of its results, if the graph is in another than single precision.
    """

    module: torch.fx.GraphModule
    batched: bool
    types: Types | None = None

    def __call__(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Return the results, nested as those of the graph."""
        if self.types is not None:
            plain = dataclasses.replace(self, types=None)
            with without_autocast():
                return typed(plain(single(tensors)), self.types)
        if not self.batched:
            return self.module(*tensors)
        return EachSample(self.module).run_all(tensors)


def plan_of(
    module: Body,
    tensors: Sequence[torch.Tensor],
    samples: Samples,
    options: Options,
    *,
    may_mix: bool = True,
) -> Plan:
    """Return a plan, its parts calibrated and compiled.

    With ``may_mix``, the graph may mix the samples of a batch somewhere.

    Raises
    ------
    UnsupportedError
        Nothing of the graph can run on the DPU.
    """
    if not is_single(module, tensors):
        exact, types = samples.changed(single), types_of(module, tensors)
        with without_autocast():
            made = plan_of(in_single(module), single(tensors), exact, options, may_mix=may_mix)
        return dataclasses.replace(made, types=types)
    samples = samples.changed(single)  # they may come from within an autocast, unlike the call
    with progress("torch.compile: tracing") as show:
        call, batched = _one_sample(module, tensors)
        program = functional(capture(call[0], call[1], {}))
        if not batched and samples_in(tensors) > 1:
            return Plan(_around_mixing(program, tensors, samples, options, may_mix), False)
        reasons: dict[str, str] = {}
        size = 1 if batched else samples_in(tensors)
        parts = _calibrated(program, options, samples, size, show, reasons)
        if endless := set[str]().union(*(part.not_finite() for part in _dpu_parts(parts))):
            reasons |= dict.fromkeys(endless, "it takes or gives what is not finite")
            parts = _calibrated(program, options, samples, size, show, reasons)
        for part in _dpu_parts(parts):
            part.compile(options, show)
    return Plan(parts, batched)


def _calibrated(
    program: ExportedProgram, options: Options, samples: Samples, size: int, show: Show,
    reasons: dict[str, str],
) -> torch.fx.GraphModule:  # fmt: skip
    """Return a program whose parts have seen their inputs, except for operators with reasons."""
    parts = _with_parts(program, options, show, reasons)
    if not _dpu_parts(parts):
        raise UnsupportedError(f"no part of it is for the DPU{_shown(reasons)}")
    _calibrate(parts, samples, size)
    return parts


def _dpu_parts(module: torch.nn.Module) -> list[DpuPart]:
    return [part for part in module.modules() if isinstance(part, DpuPart)]


def _shown(reasons: Mapping[str, str]) -> str:
    """Return the first reasons why operators stay in PyTorch, each with the first operator."""
    first: dict[str, str] = {}
    for name, why in reasons.items():
        if why != NOTHING:
            first.setdefault(why, f"{name}: {why}")
    some = list(first.values())[:_MOST]
    return "".join(f"{';' if index else ':'} {text}" for index, text in enumerate(some)) + (
        f"; and {len(first) - _MOST} more" if len(first) > _MOST else ""
    )


def _around_mixing(
    program: ExportedProgram,
    tensors: Sequence[torch.Tensor],
    samples: Samples,
    options: Options,
    may_mix: bool,
) -> torch.fx.GraphModule:
    """Return a program with plans for what treats every sample by itself."""
    if not may_mix:
        raise UnsupportedError("it mixes the samples of a batch")

    def make(body: Body, call: Sequence[torch.Tensor], seen: Samples) -> Plan:
        return plan_of(body, call, seen, options, may_mix=False)

    return around_mixing(program, tensors, samples, make)


def _one_sample(
    module: Body, tensors: Sequence[torch.Tensor]
) -> tuple[tuple[torch.nn.Module, Sequence[torch.Tensor]], bool]:
    """Return the module that computes one sample, with one; or the module and all of them."""
    with contextlib.redirect_stderr(io.StringIO()):  # modules of torch.fx write what fails
        (args, _), whole, batched = single_sample(module, tensors, {}, numbers=True)
        if batched:
            return (module, args), True
        graph = rebatched(module.body, tensors)
        if graph is not None:
            one = module.with_body(graph)
            if computes_first(one, tensors, whole):
                return (one, [t[:1] if t.ndim else t for t in tensors]), True
    return (module, tensors), False


def _with_parts(
    program: ExportedProgram, options: Options, show: Show, why: dict[str, str]
) -> torch.fx.GraphModule:
    """Return a program as a module whose supported parts are :class:`DpuPart`.

    In ``why``, reasons of the others are noted, by operator. Those that it has stay in PyTorch.
    """
    show("torch.compile: looking for parts for the DPU")
    target = chosen_target(options.target)
    try:
        reasons = why | on_cpu(program, target) | complex_operators(program)
    except UnsupportedError as error:
        return _around_unknown(decomposed(program), error, options, show, why)
    why.update(reasons)
    for reason in dict.fromkeys(reasons.values()):
        messages.LOG.info("in PyTorch: %s", reason)
    module: torch.fx.GraphModule = program.module(check_guards=False)
    made = split(module, reasons, lambda name: name not in reasons)
    for node in made.graph.nodes:
        if node.op == "call_module" and str(node.target).startswith(PART):
            setattr(made, str(node.target), DpuPart(float_part(made, str(node.target))))
    return made


def _around_unknown(
    program: ExportedProgram, error: UnsupportedError, options: Options, show: Show,
    why: dict[str, str],
) -> torch.fx.GraphModule:  # fmt: skip
    """Return a program with parts around the operators that cannot be converted."""
    unknown = unknown_operators(program) or untranslated(program, error)
    if not unknown:
        raise error
    why.update({name: f"{called} has no counterpart in ONNX" for name, called in unknown.items()})
    messages.say_once(
        f"in PyTorch: {', '.join(sorted(set(unknown.values())))} (no counterpart in ONNX)"
    )
    made = split(program.module(check_guards=False), unknown, lambda name: True)
    for name, inputs in _inputs_of_parts(made, program.example_inputs[0]):
        inner = _with_parts(capture(float_part(made, name), inputs, {}), options, show, why)
        setattr(made, name, inner)
    return made


def _inputs_of_parts(
    module: torch.fx.GraphModule, args: Sequence[Any]
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Return the parts of a module, and what each is called with for some arguments."""
    found: dict[str, tuple[Any, ...]] = {}

    class Watch(torch.fx.Interpreter):
        def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
            found[str(target)] = args
            return super().call_module(target, args, kwargs)

    with torch.no_grad():
        Watch(module).run(*args, enable_io_processing=False)
    yield from found.items()


def _calibrate(module: torch.nn.Module, samples: Samples, size: int) -> None:
    """Let the parts of a module see their inputs."""
    seen = False
    with torch.no_grad():
        for call in samples.each(size):
            module(*call)
            seen = True
    if not seen:
        raise UnsupportedError(
            f"it mixes the samples of a batch of {size}, and the calibration data has none so large"
        )
