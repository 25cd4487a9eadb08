# SPDX-License-Identifier: Apache-2.0
"""The ONNX exporter's operators are collected once, and nothing of one export is in the next."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")

from torch.onnx._internal.exporter import _registration  # noqa: E402

from opendpu.frontend.pytorch import load_torch, torchlib  # noqa: E402


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
