# SPDX-License-Identifier: Apache-2.0
"""Operators that compute nothing: they mark in a traced module what is quantized and what is not.

``quant_stub`` and ``dequant_stub`` are what the guide's modules of that name call: in a model that
has one of them, only what is between is quantized. ``float_begin`` and ``float_end`` are around
what stays float anyway.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from onnxscript import ir
from onnxscript import opset18 as op

NAMESPACE = "opendpu"
STUBS = ("quant_stub", "dequant_stub")
MARKERS = (*STUBS, "float_begin", "float_end")
QUANTIZING = {"quant_stub": True, "dequant_stub": False, "float_begin": False, "float_end": True}
"""Whether what follows a marker is quantized."""


def _copied(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor of its own with the same values, as custom operators have to."""
    return x.clone()


def _same_gradient(context: object, gradient: torch.Tensor) -> torch.Tensor:
    return gradient


for _name in MARKERS:
    _made = torch.library.custom_op(f"{NAMESPACE}::{_name}", _copied, mutates_args=())
    _made.register_fake(_copied)
    _made.register_autograd(_same_gradient)


def mark(name: str, x: torch.Tensor) -> torch.Tensor:
    """Return a tensor that a trace knows to be behind the marker ``name``."""
    return getattr(getattr(torch.ops, NAMESPACE), name)(x)


def _identity(x):  # type: ignore[no-untyped-def]  # onnxscript reads annotations as ONNX's
    return op.Identity(x)


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return what PyTorch's ONNX exporter makes of markers: nodes that keep their metadata."""
    space = getattr(torch.ops, NAMESPACE)
    return {getattr(space, name).default: _identity for name in MARKERS}


@dataclasses.dataclass(frozen=True)
class Floating:
    """What markers leave in float.

    Parameters
    ----------
    ops
        Ops that compute in float, so that their parameters are not quantized.
    results
        Ops whose results are not quantized, inputs among them; a result may be quantized for what
        follows.
    begins
        By ``quant_stub``, the op whose result it marks.
    """

    ops: frozenset[str] = frozenset()
    results: frozenset[str] = frozenset()
    begins: Mapping[str, str] = dataclasses.field(default_factory=dict)


def take_out(model: ir.Model, targets: Mapping[str, str]) -> Floating:
    """Remove the markers from a model; return what they leave in float.

    A result is quantized if a tensor that it is made of is; the inputs of a model with stubs are
    not. What a marker makes quantized is so where it is made already.

    Parameters
    ----------
    targets
        Operators of PyTorch by node, ``opendpu.quant_stub.default``.
    """
    markers = {node: found for node in model.graph
               if (found := _marker(targets.get(str(node.name), "")))}  # fmt: skip
    if not markers:
        return Floating()
    stubs = not set(STUBS).isdisjoint(markers.values())
    quantized = dict.fromkeys(model.graph.inputs, not stubs)
    for node in model.graph:
        before = [quantized[value] for value in node.inputs if value in quantized]
        if before:
            state = QUANTIZING[markers[node]] if node in markers else any(before)
            quantized |= dict.fromkeys(node.outputs, state)
    ops = frozenset(str(value.name) for value, state in quantized.items()
                    if not state and value.producer() not in markers)  # fmt: skip
    begins = {}
    for node, marker in markers.items():
        (source,) = node.inputs
        assert source is not None
        if marker == "quant_stub":
            begins[str(node.name)] = str(source.name)
        quantized[source] = quantized.get(source, True) or QUANTIZING[marker]
        ir.convenience.replace_all_uses_with(node.outputs, [source], replace_graph_outputs=True)
        del quantized[node.outputs[0]]
        model.graph.remove(node, safe=True)
    results = frozenset(str(value.name) for value, state in quantized.items() if not state)
    return Floating(ops, results, begins)


def _marker(target: str) -> str:
    """Return the marker that an operator of PyTorch is; empty if none."""
    space, _, name = target.partition(".")
    name = name.removesuffix(".default")
    return name if space == NAMESPACE and name in MARKERS else ""
