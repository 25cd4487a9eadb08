# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's ONNX exporter does anew for every program, and needs to do once.

``torch.onnx.export`` collects the operators that it knows, and parses the sources of some 500
functions for that; it asks PyTorch's dispatcher for all operators, for every namespace again; and
it prepares the decomposition of any operator, whether the program has one to decompose or not. That
is most of the time that a small program takes, of which ``torch.compile`` converts dozens.
"""

import contextlib
import copy
import functools
import operator
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch._export import utils as export_utils
from torch.export import ExportedProgram
from torch.onnx._internal.exporter import _decomp, _fx_passes
from torch.onnx._internal.exporter._registration import ONNXRegistry

_original = ONNXRegistry.from_torchlib
_decompose = _fx_passes.decompose_with_registry
_lock = threading.RLock()


@functools.cache
def _collected(*args: Any, **kwargs: Any) -> ONNXRegistry:
    found: ONNXRegistry = _original(*args, **kwargs)
    return found


def registry(*args: Any, **kwargs: Any) -> ONNXRegistry:
    """Return the operators for an operator set, as ``ONNXRegistry.from_torchlib`` takes it.

    What is registered there later does not change what the next caller gets.
    """
    with _lock:
        found = _collected(*args, **kwargs)
        made = copy.copy(found)
        made.functions = {target: list(items) for target, items in found.functions.items()}
    return made


@contextlib.contextmanager
def collected_once() -> Iterator[None]:
    """Let PyTorch's ONNX exporter do these things once; one thread at a time."""
    with _lock, contextlib.ExitStack() as undone:
        for owner, name, other in (
            (ONNXRegistry, "from_torchlib", staticmethod(registry)),
            (_fx_passes, "decompose_with_registry", _decomposed),
            (export_utils, "_materialize_cpp_cia_ops", _first_time_only()),
        ):
            undone.callback(setattr, owner, name, vars(owner)[name])
            setattr(owner, name, other)
        yield


def _first_time_only() -> Any:
    """Return what finds the dispatcher's operators, and does it the first time only."""
    return functools.cache(export_utils._materialize_cpp_cia_ops)


def _decomposed(program: ExportedProgram, known: ONNXRegistry) -> ExportedProgram:
    """Return a program without operators that ONNX has no counterpart of, if it can be had."""
    if not _is_decomposed(program, known):
        return _decompose(program, known)
    made, module = copy.copy(program), program.graph_module  # the exporter will change it
    graph = copy.deepcopy(module.graph)
    for own, node in zip(module.graph.nodes, graph.nodes, strict=True):
        node.name = own.name  # a copy has no node that is called as one of Python's functions
    made._graph_module = torch.fx.GraphModule(module, graph)
    made._graph_module.meta = dict(module.meta)
    return made


def _is_decomposed(program: ExportedProgram, known: ONNXRegistry) -> bool:
    """Tell whether decomposing a program would change none of its operators."""
    targets = {node.target for node in program.graph.nodes if node.op == "call_function"}
    overloads = set(_decomp.get_onnx_implemented_overloads(known))
    return all(
        target is operator.getitem
        or (isinstance(target, torch._ops.OpOverload) and target in overloads and _stays(target))
        for target in targets
    )


@functools.cache
def _stays(target: torch._ops.OpOverload) -> bool:
    """Tell whether an operator that has a counterpart in ONNX is not made of others meanwhile.

    Those that write into something are; so are PyTorch's compositions, unless they are functions.
    """
    if target._schema.is_mutable:
        return False
    made_of_others = torch._C.DispatchKey.CompositeImplicitAutograd
    composed = target.has_kernel_for_dispatch_key(made_of_others)
    return not composed or export_utils._is_preservable_cia_op(target)
