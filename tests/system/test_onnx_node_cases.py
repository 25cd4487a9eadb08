# SPDX-License-Identifier: Apache-2.0
"""onnx's own cases of single operators do what docs/reference/onnx_operators.md says."""

import importlib
import pathlib
import re
import types

import onnx
import onnxruntime
import pytest

pytestmark = pytest.mark.system

PARTS = 16
"""Tests that the cases are divided among."""


@pytest.fixture
def onnx_cases(repository: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    monkeypatch.syspath_prepend(str(repository / "scripts"))
    return importlib.import_module("reference_pages.onnx_cases")


@pytest.fixture
def page(repository: pathlib.Path) -> str:
    return (repository / "docs" / "reference" / "onnx_operators.md").read_text()


def said_to_fail(page: str) -> dict[str, str]:
    """Return the reasons of the cases that the page lists, by case."""
    found = {}
    for reason, names in re.findall(r"\*\*(.+?)\*\* \(\d+\):\n\n(.+)\n", page):
        found |= dict.fromkeys(re.findall(r"`(.+?)`", names), reason[0].lower() + reason[1:])
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_cases(onnx_cases, page, part):
    if f"onnx\n{onnx.__version__})" not in page or onnxruntime.__version__ not in page:
        pytest.skip("the page is of other versions of onnx or onnxruntime")
    expected = said_to_fail(page)
    wrong = []
    for name in sorted(onnx_cases.cases())[part::PARTS]:
        outcome = onnx_cases.run(onnx_cases.cases()[name])
        if outcome.failure != expected.get(name.removeprefix("test_"), ""):
            wrong.append(f"{name}: {outcome.failure or 'passes'}")
    assert not wrong, "\n".join(wrong)


def test_every_failure_has_a_reason_outside(onnx_cases, page):
    """Nothing fails for a reason of our own."""
    reasons = {onnx_cases.BORDER, onnx_cases.OPSET, onnx_cases.KERNEL, onnx_cases.DIFFERENT}
    assert set(said_to_fail(page).values()) <= reasons


def test_floats_that_onnxruntime_computes_pass(onnx_cases, page):
    """Single operators on float32 fail only where onnxruntime does not give the result itself."""
    wrong = []
    for name, reason in said_to_fail(page).items():
        model = onnx_cases.cases()[f"test_{name}"].model
        items = [*model.graph.input, *model.graph.output]
        if reason == onnx_cases.BORDER and all(
            item.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for item in items
        ):
            wrong.append(name)
    assert not wrong
