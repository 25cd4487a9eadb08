# SPDX-License-Identifier: Apache-2.0
"""The ONNX exporter's operators are collected once, and nothing of one export is in the next."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")

from torch._export import utils as export_utils  # noqa: E402
from torch.onnx._internal.exporter import _fx_passes, _registration  # noqa: E402

from opendpu.frontend.pytorch import load_program, load_torch, torchlib  # noqa: E402
from opendpu.frontend.pytorch.capture import capture  # noqa: E402
from opendpu.ops.session import Session  # noqa: E402


@pytest.fixture
def counted(monkeypatch):
    """Count how often operators are collected, from none on."""
    apis, calls = _registration.onnxscript_apis, []
    collect = apis.get_torchlib_ops

    def noted():
        calls.append(1)
        return collect()

    monkeypatch.setattr(apis, "get_torchlib_ops", noted)
    torchlib._collected.cache_clear()
    return calls


def test_several_modules_collect_once(counted):
    before = vars(_registration.ONNXRegistry)["from_torchlib"]
    image = torch.zeros(1, 3, 8, 8)
    first = load_torch(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()), image)
    again = load_torch(torch.nn.Sequential(torch.nn.MaxPool2d(2)), image)
    assert ([n.kind for n in first if n.kind != "const"], len(counted)) == (
        ["data", "conv2d", "relu"], 1,
    )  # fmt: skip
    assert [node.kind for node in again] == ["data", "maxpool2d"]
    assert vars(_registration.ONNXRegistry)["from_torchlib"] is before


def test_a_failing_export_leaves_the_exporter_as_it_was(counted):
    before = vars(_registration.ONNXRegistry)["from_torchlib"]
    with pytest.raises(ValueError, match="mine"), torchlib.collected_once():
        raise ValueError("mine")
    assert vars(_registration.ONNXRegistry)["from_torchlib"] is before


def test_what_one_registers_the_other_has_not():
    def translation(x):
        return x

    one = torchlib.registry()
    one.register_op(torch.ops.aten.relu.default, translation)
    other = torchlib.registry()
    functions = [item.onnx_function for item in other.get_decomps(torch.ops.aten.relu.default)]
    assert functions
    assert translation not in functions


def test_the_dispatcher_is_asked_once_an_export(monkeypatch):
    calls = []
    monkeypatch.setattr(export_utils, "_materialize_cpp_cia_ops", lambda: calls.append(1))
    before = _fx_passes.decompose_with_registry
    with torchlib.collected_once():
        for _ in range(3):
            export_utils._materialize_cpp_cia_ops()
    export_utils._materialize_cpp_cia_ops()
    assert (len(calls), _fx_passes.decompose_with_registry) == (2, before)


class _Block(torch.nn.Module):
    """What a part of a transformer computes; ``composed`` adds what ATen makes of others."""

    def __init__(self, composed):
        super().__init__()
        self.composed = composed
        self.norm, self.first, self.second = (
            torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8),
        )  # fmt: skip

    def forward(self, x):
        y = self.second(torch.nn.functional.gelu(self.first(self.norm(x))))
        return y.reshape(2, 40).contiguous() if self.composed else (x + y).squeeze(-1)


@pytest.mark.parametrize("composed", [False, True])
def test_what_has_nothing_to_decompose_is_converted_as_it_is(monkeypatch, composed):
    torch.manual_seed(0)
    module, x = _Block(composed).eval(), torch.randn(2, 5, 8)
    program, calls, decompose = capture(module, (x,), {}), [], torchlib._decompose
    monkeypatch.setattr(torchlib, "_decompose", lambda *a: calls.append(1) or decompose(*a))
    before = str(program.graph)
    with torch.no_grad():
        wanted = module(x).numpy()
    graph = load_program(program)
    order = graph.attrs.get("onnx_order", {})
    given = x.numpy().transpose(order.get("x", range(3)))
    (found,) = Session(graph).run({"x": given}).values()
    if graph.outputs[0] in order:
        found = found.transpose(np.argsort(order[graph.outputs[0]]))
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert (len(calls), str(program.graph)) == (composed, before)
