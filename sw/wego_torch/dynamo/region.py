# SPDX-License-Identifier: Apache-2.0
"""One graph of TorchDynamo: looked at while calibrating, then computed by its plan."""

import inspect
import threading
from collections.abc import Sequence
from typing import Any

import torch

from opendpu.frontend.pytorch.capture import tracing
from opendpu_arch.errors import ModelFormatError, UnsupportedError
from wego_torch import messages
from wego_torch.dynamo.attention import write_out
from wego_torch.dynamo.bound import Bound, Role
from wego_torch.dynamo.captured import Captured
from wego_torch.dynamo.gradients import differentiable, remove_modes, without_gradients
from wego_torch.dynamo.inlining import inline
from wego_torch.dynamo.mutation import changes_module, is_transformed
from wego_torch.dynamo.numbers import SizeResults, is_size
from wego_torch.dynamo.plan import Plan, plan_of
from wego_torch.dynamo.precision import ambient
from wego_torch.dynamo.quantized import has_quantized, with_programs
from wego_torch.dynamo.samples import Samples, samples_in
from wego_torch.dynamo.session import Session
from wego_torch.network import refuse_gradients

PLANS = 8
"""Sizes of its inputs, and numbers among them, for which a graph is compiled; others stay in
PyTorch."""

Sizes = tuple[tuple[int, ...], ...]
Key = tuple[tuple[str, tuple[str, ...]], Sizes]
"""Of a plan: the autocast around the program, numbers that it was given, and sizes."""


class Shared:
    """What graphs have in common that TorchDynamo has made for the same code and other sizes."""

    def __init__(self) -> None:
        self.samples: dict[Sizes, Samples] = {}
        self.again: dict[Sizes, bool] = {}
        """Whether samples are those of the call that was done again."""
        self.plans: dict[Key, Plan | None] = {}
        self.versions: tuple[int, ...] = ()
        self.captured = Captured()
        self.lock = threading.Lock()


class Region:
    """A graph; called as TorchDynamo calls it.

    Parameters
    ----------
    graph, example_inputs
        From TorchDynamo: parameters of modules, sizes and tensors.
    session
        Of the ``torch.compile`` that it belongs to.
    """

    def __init__(
        self, graph: torch.fx.GraphModule, example_inputs: Sequence[Any], session: Session
    ) -> None:
        inline(graph)
        write_out(graph)
        _check_mode(graph)
        self._size_results = SizeResults(graph)
        self._differentiable = differentiable(graph)
        remove_modes(graph)
        self.graph, self.session = graph, session
        self._of_before = not session.calibrated and not session.calibrating
        """Whether the graph is of the call that the calibration is for, from before it."""
        self.bound = Bound(graph, example_inputs)
        self._shared = session.shared.setdefault(_structure(graph, self.bound), Shared())
        self._lock = self._shared.lock
        self._programs: Any = None
        self._empty = not any(n.op.startswith("call") for n in graph.graph.nodes)
        self._why_not = ""
        if changes_module(graph, self.bound):
            self._why_not = "it changes a tensor of the module"
        elif is_transformed(graph):
            self._why_not = "it is transformed by torch.func"

    def __call__(self, *args: Any) -> Any:
        """Return the results of the graph.

        Raises
        ------
        UnsupportedError
            Gradients are asked for.
        WegoError
            The module is neither quantized nor is there data, or the device failed.
        """
        return self._size_results.added(self._tensors, args)

    def _tensors(self, *args: Any) -> Any:
        """Return the results of the graph that are no sizes."""
        tensors = self.bound.tensors(args)
        refuse_gradients([tensor for tensor in tensors if tensor.is_leaf])  # others are of parts
        if self._empty or not tensors:
            return self.graph(*args)
        _refuse_without_values(tensors)
        if has_quantized(self.graph):
            with self._lock:
                if self._programs is None:
                    options = self.session.options.compile_options()
                    self._programs = with_programs(self.graph, options)
            with torch.no_grad():
                return self._programs(*args)
        sizes = tuple(tuple(tensor.shape[1:]) for tensor in tensors)
        if self.session.calibrating:
            return self._look_on(sizes, tensors, args)
        self.session.calibrate()
        if sizes not in self._shared.samples and not self._why_not:
            self.session.calibrate_as_called()
            if self._of_before and sizes not in self._shared.samples:
                self.session.calibrate_by(samples_in(self.bound.changing(args, steady=True)))
        with self._lock:
            ready, plan = self._known(sizes, args)
            changing = self.bound.changing(args, self._steady())  # what the plan is for
        if not ready:
            with tracing(), self._lock:  # always in this order
                plan = self._plan(sizes, tensors, args)
                changing = self.bound.changing(args, self._steady())
        with torch.no_grad():
            some = samples_in(changing) > 0
            results = plan(changing) if plan is not None and some else self.graph(*args)
        return without_gradients(results, self._differentiable)

    def _look_on(self, sizes: Sizes, tensors: Sequence[torch.Tensor], args: Sequence[Any]) -> Any:
        """Return what the float graph gives, and remember the inputs."""
        with self._lock:
            self._shared.captured.look_at(self.bound.captured(args))
            samples = self._shared.samples
            if sizes not in samples and len(samples) < PLANS:
                samples[sizes] = Samples(self.session.options.samples)
                self._shared.again[sizes] = self.session.again
            if sizes in samples and self._shared.again[sizes] == self.session.again:
                samples[sizes].add(tensors, samples_in(self.bound.changing(args, steady=True)))
        with torch.no_grad():
            results = self.graph(*args)
        return without_gradients(results, self._differentiable)

    def _steady(self) -> bool:
        """Return whether captured tensors are constants."""
        return self._shared.captured.steady and bool(self.bound.columns(True))

    def _known(self, sizes: Sizes, args: Sequence[Any]) -> tuple[bool, Plan | None]:
        """Return whether it is known how inputs of these sizes are computed, and how."""
        if self._why_not:
            messages.say_once(f"a graph runs in PyTorch: {self._why_not}")
            return True, None
        shared = self._shared
        shared.captured.look_at(self.bound.captured(args))
        steady = self._steady()
        versions = (steady, *self.bound.versions(args))
        if versions != shared.versions:  # somebody has loaded other weights
            shared.plans.clear()
            shared.versions = versions
        for key in self._keys(sizes, args):
            if key in shared.plans:
                return True, shared.plans[key]
        return False, None

    def _keys(self, sizes: Sizes, args: Sequence[Any]) -> tuple["Key", ...]:
        """Return what a plan is kept by: for any number of samples, and for as many only."""
        count = samples_in(self.bound.changing(args, self._steady()))
        around = (ambient(), self.bound.numbers(args, self._steady()))
        return (around, sizes), (around, ((count,), *sizes))

    def _plan(
        self, sizes: Sizes, tensors: Sequence[torch.Tensor], args: Sequence[Any]
    ) -> Plan | None:
        """Return how inputs of these sizes are computed; nothing for wholly in PyTorch."""
        ready, made = self._known(sizes, args)  # another thread may have been here
        if ready:
            return made
        shared, steady = self._shared, self._steady()
        if sizes not in shared.samples:
            shown = ", ".join(str(list(tensor.shape)) for tensor in tensors)
            messages.say_once(
                f"a graph with inputs {shown} runs in PyTorch: with the calibration data, nothing "
                "of these sizes came there, or it came with other numbers that are no tensors"
            )
            return None
        numbers = {around[1] for around, _ in shared.plans}
        if len(numbers - {self.bound.numbers(args, steady)}) >= PLANS:
            messages.say_once(f"a graph runs in PyTorch: it came with more than {PLANS} numbers")
            return None
        try:
            samples, columns = shared.samples[sizes], self.bound.columns(steady)
            made = plan_of(
                self.bound.module(args, steady),
                [tensor.clone() for tensor in self.bound.changing(args, steady)],
                samples.changed(lambda call: [call[column] for column in columns]),
                self.session.options,
            )  # fmt: skip
        except (UnsupportedError, ModelFormatError) as error:
            messages.say_once(f"a graph runs in PyTorch: {error}")
            made = None
        of_any, of_as_many = self._keys(sizes, args)
        shared.plans[of_any if made is not None and made.batched else of_as_many] = made
        return made


def _refuse_without_values(tensors: Sequence[torch.Tensor]) -> None:
    """Raise WegoError for tensors on PyTorch's device ``meta``."""
    if any(tensor.is_meta for tensor in tensors):
        raise messages.error(
            "WEGO_TORCH_INVALID_ARGUMENT",
            "an input is on the device meta, where tensors have no values: load the model and its "
            "inputs on the device cpu",
        )


def _structure(graph: torch.fx.GraphModule, bound: Bound) -> tuple[str, ...]:
    """Return what a graph does, without the sizes that TorchDynamo has put into it."""
    heads = [node for node in graph.graph.nodes if node.op == "placeholder"]
    found = [
        str(getattr(getattr(node, "_dynamo_source", None), "name", node.name))
        for node, role in zip(heads, bound.roles, strict=True)
        if role is not Role.SIZE
    ]
    for node in graph.graph.nodes:
        if node.op not in ("placeholder", "output") and not is_size(node):
            inputs = sum(not is_size(source) for source in node.all_input_nodes)
            found.append(f"{node.op} {node.target} {inputs}")
    return tuple(found)


def _check_mode(graph: torch.fx.GraphModule) -> None:
    """Refuse graphs of modules in training mode: they compute something else than is deployed."""
    for node in graph.graph.nodes:
        called = node.op == "call_function" and callable(node.target)
        if called and _argument(node, "training") is True and not _without_statistics(node):
            raise messages.error(
                "WEGO_TORCH_INVALID_MODEL",
                f"{getattr(node.target, '__name__', node.name)} is in training mode, but the "
                "DPU only infers: call model.eval() before torch.compile",
            )


def _without_statistics(node: torch.fx.Node) -> bool:
    """Tell whether a node is a batch norm that keeps no statistics: its only mode is training's."""
    return node.target is torch.nn.functional.batch_norm and (
        _argument(node, "running_mean") is None and _argument(node, "running_var") is None
    )


def _argument(node: torch.fx.Node, name: str) -> Any:
    """Return an argument of a call by name; nothing where there is none."""
    if name in node.kwargs:
        return node.kwargs[name]
    try:
        bound = inspect.signature(node.target).bind(*node.args, **node.kwargs)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # builtin, or called otherwise
        return None
    return bound.arguments.get(name)
