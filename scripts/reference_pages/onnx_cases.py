# SPDX-License-Identifier: Apache-2.0
"""onnx's own test cases of single operators, through the front end, next to onnxruntime."""

import dataclasses
import functools
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from opendpu.frontend import load_onnx
from opendpu.frontend.opsets import newest_opset
from opendpu.ir import FloatGraph
from opendpu.ops.session import Session
from opendpu_arch.errors import DPUError, UnsupportedError

ABSOLUTE = 1e-5
"""Least tolerance of floats; onnx's own is narrower than float32 for some cases."""

BORDER = "an input or output is no tensor of integers, floats or bools that numpy has"
OPSET = "onnxruntime does not run its operator set yet"
KERNEL = "onnxruntime has no kernel for it, or none for these element types"
DIFFERENT = "onnxruntime gives other numbers than onnx"
_BORDERS = re.compile(r"(is of|output '[^']*' is|is a constant of) .*tensor of integers, floats or")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a case: the operator it is about, and why it failed, if it did."""

    case: str
    operator: str
    kinds: tuple[str, ...] = ()
    """Ops of the graph."""
    failure: str = ""
    """One of the reasons above; else what went wrong."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, inputs with the outputs that it should give, and how near these have to be."""

    name: str
    model: onnx.ModelProto
    data_sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float


@functools.cache
def cases() -> dict[str, Case]:
    """Return onnx's cases of single operators by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they divide by zero and overflow on purpose
        return {
            case.name: Case(case.name, case.model, case.data_sets or (), case.rtol, case.atol)
            for case in load_model_tests(kind="node")
            if case.model is not None
        }


def run(case: Case) -> Outcome:
    """Convert a case and compare what its graph gives with what onnx wants."""
    operator = _operator(case)
    try:
        graph = load_onnx(case.model, _sizes(case))
    except UnsupportedError as error:
        return Outcome(case.name, operator, failure=_class_of(str(error)))
    except DPUError as error:
        return Outcome(case.name, operator, failure=_class_of(str(error)))
    kinds = tuple(dict.fromkeys(node.kind for node in graph if node.kind not in ("data", "const")))
    try:
        for inputs, outputs in case.data_sets:
            found = Session(graph).run(_feeds(graph, case, inputs))
            _compare(graph, case, list(found.values()), outputs)
    except Exception as error:  # onnxruntime has no common base class for its errors
        return Outcome(case.name, operator, kinds, _onnxruntime_alone(case) or str(error))
    return Outcome(case.name, operator, kinds)


def _operator(case: Case) -> str:
    """Return the operator that a case is about; expanded functions are about their own."""
    name = case.name.removeprefix("test_").removesuffix("_expanded")
    types = {node.op_type for node in case.model.graph.node}
    plain = name.replace("_", "").lower()
    found = [s.name for s in onnx.defs.get_all_schemas() if plain.startswith(s.name.lower())]
    if len(types) == 1 and not case.name.endswith("_expanded"):
        return types.pop()
    return max(found, key=len) if found else min(types)


def _sizes(case: Case) -> dict[str, tuple[int, ...]]:
    """Return the shapes of inputs that have free dimensions."""
    if not case.data_sets:
        return {}
    given = zip(case.model.graph.input, case.data_sets[0][0], strict=True)
    return {
        item.name: _array(a).shape
        for item, a in given
        if isinstance(a, (np.ndarray, onnx.TensorProto))
    }


def _array(value: Any) -> Any:
    """Return a tensor of a case, which holds some as ONNX's messages."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value)


def _feeds(graph: FloatGraph, case: Case, inputs: Sequence[Any]) -> dict[str, Any]:
    order = graph.attrs.get("onnx_order", {})
    feeds = {}
    for item, array in zip(case.model.graph.input, inputs, strict=True):
        straight = _array(array)
        moved = straight.transpose(order[item.name]) if item.name in order else straight
        node = graph[item.name]
        declared = item.name in graph.attrs.get("onnx_dtype", {})
        feeds[item.name] = moved.reshape(node.shape).astype(
            node.type.dtype if declared else moved.dtype
        )
    return feeds


def _compare(graph: FloatGraph, case: Case, found: Sequence[Any], wanted: Sequence[Any]) -> None:
    order, declared = (graph.attrs.get(what, {}) for what in ("onnx_order", "onnx_dtype"))
    for name, got, array in zip(graph.outputs, found, wanted, strict=True):
        got = got.astype(declared.get(name, got.dtype))
        want = _array(array)
        want = want.transpose(order[name]) if name in order else want
        assert got.dtype == want.dtype, f"{name} is {got.dtype}, but should be {want.dtype}"
        assert got.shape == (want.shape or (1,)), f"{name} has shape {got.shape}, not {want.shape}"
        _close(case, got.reshape(want.shape), want)


def _close(case: Case, got: Any, want: Any) -> None:
    least = ABSOLUTE if want.dtype.kind == "f" else 0
    np.testing.assert_allclose(got, want, rtol=case.rtol, atol=max(case.atol, least))


def _onnxruntime_alone(case: Case) -> str:
    """Return why onnxruntime fails with the case too; nothing if it does not.

    Where it does not run the operator set yet, it gets the newest that it runs.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for item in model.opset_import:
        if not item.domain:
            item.version = min(item.version, newest_opset())
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        for inputs, outputs in case.data_sets:
            names = [item.name for item in case.model.graph.input]
            given = [_array(array) for array in inputs]
            found = session.run(None, dict(zip(names, given, strict=True)))
            for got, want in zip(found, outputs, strict=True):
                _close(case, got, _array(want))
    except AssertionError:
        return DIFFERENT
    except Exception:  # as above
        return KERNEL
    return ""


def _class_of(message: str) -> str:
    if "onnxruntime does not compute" in message or "has unsupported type" in message:
        return KERNEL
    if _BORDERS.search(message):
        return BORDER
    return OPSET if "uses ONNX operator set" in message else message
