# SPDX-License-Identifier: Apache-2.0
"""Modules as exported programs: ``torch.export``, and what it says when it fails."""

import contextlib
import copy
import io
import linecache
import logging
import pathlib
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from opendpu.frontend.pytorch.prepared import refuse_prepared
from opendpu.ops.inference import reason_of
from opendpu_arch.errors import UnsupportedError

TRACE = "QUANTIZER_TORCH_PYTORCH_TRACE"
"""The guide's code for a module whose graph cannot be had."""
SCRIPTED = "QUANTIZER_TORCH_TRACED_NOT_SUPPORTED"
"""The guide's code for what ``torch.jit.script`` made."""

_LIBRARY = pathlib.Path(torch.__file__).parent
_TOOL = pathlib.Path(__file__).parent


def tracing() -> contextlib.AbstractContextManager[object]:
    """Return what is to be held while PyTorch traces or exports.

    It changes state of the whole process then, and what other threads trace meanwhile fails. This
    is TorchDynamo's own lock, which keeps it away, too. Its module takes half as long to import as
    all of PyTorch, so that is left to those who trace.
    """
    from torch._dynamo.convert_frame import compile_lock

    return compile_lock


@contextlib.contextmanager
def evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Put a module and all in it into evaluation mode, without gradients; undo it afterwards."""
    training = [part for part in module.modules() if getattr(part, "training", False)]
    for part in training:
        part.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True


def capture(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> ExportedProgram:
    """Trace a module in evaluation mode with ``torch.export``.

    Raises
    ------
    UnsupportedError
        It cannot be traced, for example because its control flow depends on the values of tensors:
        with the line of its source; or ``torch.jit.script`` made it, or PyTorch's quantizer.
    """
    if isinstance(module, torch.jit.ScriptModule):
        return _from_script(module, args, kwargs)
    refuse_prepared(module, TRACE)
    try:
        with tracing(), evaluating(module), quiet():
            return torch.export.export(module, tuple(args), dict(kwargs))
    except Exception as error:  # whatever the user's code and the tracer raise
        raise UnsupportedError(failure(module, error), code=TRACE) from error


def _from_script(
    module: torch.jit.ScriptModule, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> ExportedProgram:
    """Convert what ``torch.jit.trace`` made; control flow is what only ``torch.jit.script`` has."""
    name = getattr(module, "original_name", type(module).__name__)
    flow = _control_flow(module)
    if flow:  # asking whether it is being trained, say, which is decided when it is frozen
        module = _frozen(module)
        flow = _control_flow(module)
    if flow:
        raise UnsupportedError(
            f"TorchScript module {name} has {' and '.join(flow)}; only what torch.jit.trace made "
            "can be taken: give the original torch.nn.Module",
            code=SCRIPTED,
        )
    from torch._export.converter import TS2EPConverter

    try:
        with tracing(), evaluating(module), quiet():
            return TS2EPConverter(module, tuple(args), dict(kwargs)).convert()
    except Exception as error:  # as above
        raise UnsupportedError(failure(module, error), code=TRACE) from error


def _control_flow(module: torch.jit.ScriptModule) -> list[str]:
    """Return the kinds of branches and loops in a module."""
    graph: Any = module.inlined_graph
    return [kind for kind in ("prim::If", "prim::Loop") if graph.findNode(kind, True)]


def _frozen(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """Return a module in evaluation mode with its parameters and flags as constants.

    What only checks its inputs is left out: the module has taken those of the examples.
    """
    with evaluating(module), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # what stands for it takes no scripts
        made = torch.jit.freeze(copy.deepcopy(module))
    graph: Any = made.graph
    for index, node in enumerate(list(graph.nodes())):
        if node.kind() == "prim::If" and _only_checks(node):
            node.destroy()
        elif node.kind() == "prim::Constant" and node.outputsSize():
            node.output().setDebugName(f"constant_{index}")  # a dot would be a module's
    return made


def _only_checks(branch: Any) -> bool:
    """Tell whether a branch gives nothing, and does nothing but raise an error."""
    kinds = [inner.kind() for block in branch.blocks() for inner in block.nodes()]
    return not branch.outputsSize() and set(kinds) <= {"prim::RaiseException", "prim::Constant"}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the output of tracer and exporter away: what matters of it is in what they raise."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def failure(module: torch.nn.Module, error: Exception) -> str:
    """Return one message: the module, the line of its source, what is wrong, what would help."""
    name = getattr(module, "original_name", type(module).__name__)
    reason = reason_of(error)
    text = f"{name} cannot be traced by torch.export"
    line = _users_line(error)
    text += f": {line}: {reason}" if line else f": {reason}"
    if isinstance(error, GuardOnDataDependentSymNode):
        text += (
            "; what the module does must not depend on the values of tensors: use torch.where or "
            "torch.cond there, or do it outside of forward"
        )
    return text


def _users_line(error: BaseException) -> str:
    """Return ``file:line, code`` of the innermost call that is neither PyTorch's nor ours."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = pathlib.Path(frame.filename)
        if path.exists() and not any(path.is_relative_to(own) for own in (_LIBRARY, _TOOL)):
            code = (frame.line or linecache.getline(frame.filename, frame.lineno or 0)).strip()
            place = f"{path.name}:{frame.lineno}"
            return f"{place}, {code!r}" if code else place
    return ""
