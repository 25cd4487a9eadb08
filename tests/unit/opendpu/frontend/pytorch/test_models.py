# SPDX-License-Identifier: Apache-2.0
"""Modules as float graphs: they compute what PyTorch computes, and say where ops come from."""

import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

import torch_nets as nets  # noqa: E402
from frameworks import torch_nets  # noqa: E402
from frameworks.torch_nets import ResNet, seeded  # noqa: E402

from opendpu.frontend import load_model  # noqa: E402
from opendpu.frontend.pytorch import load_program, load_torch, trace  # noqa: E402
from opendpu.ir import to_xir  # noqa: E402
from opendpu.ops.session import Session  # noqa: E402
from opendpu_arch.errors import ModelFormatError, UnsupportedError  # noqa: E402


def computed(graph, feeds, *, batched=False):
    """Return what a graph makes of tensors, as tensors in PyTorch's layout, in order."""
    order = graph.attrs.get("onnx_order", {})
    given = {
        name: tensor.numpy().transpose(order[name]) if name in order else tensor.numpy()
        for name, tensor in feeds.items()
    }
    found = Session(graph, batched=batched).run(given)
    back = [
        found[n].transpose(np.argsort(order[n])) if n in order else found[n] for n in graph.outputs
    ]
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in back]


@pytest.fixture
def seed(rng):
    found = int(rng.integers(1 << 31))
    torch.manual_seed(found)
    return found


CASES = {
    "resnet": (ResNet, (3, 16, 16)),
    "mobile": (nets.Inverted, (3, 12, 12)),
    "shuffle": (nets.Shuffle, (4, 6, 6)),
    "attention": (nets.Attention, (3, 8, 8)),
}


@pytest.mark.parametrize(("case", "batch"), [*((case, 3) for case in CASES), ("resnet", 1)])
def test_computes_what_pytorch_computes(case, batch, seed):
    kind, shape = CASES[case]
    module = seeded(kind(), seed)
    images = torch.randn(batch, *shape)
    found = trace(module, images)
    to_xir(found.graph)  # every op is as XIR defines it
    assert found.batched
    assert found.graph["x"].shape[0] == 1
    with torch.no_grad():
        wanted = module(images)
    for index in range(batch):
        (one,) = computed(found.graph, {"x": images[index : index + 1]})
        torch.testing.assert_close(one, wanted[index : index + 1], rtol=1e-4, atol=1e-4)


def test_ops_have_the_names_of_modules(seed):
    graph = load_torch(seeded(ResNet(), seed), torch.randn(2, 3, 16, 16))
    names = [node.name for node in graph if node.kind not in ("const", "data", "reshape")]
    assert names == [
        "conv1", "bn1", "relu", "maxpool", "layer1.0.conv1", "layer1.0.bn1", "layer1.0.relu",
        "layer1.0.conv2", "layer1.0.bn2", "layer1.0.add", "layer1.0.relu_1",
        "layer1.1.downsample.0", "layer1.1.downsample.1", "layer1.1.conv1", "layer1.1.bn1",
        "layer1.1.relu", "layer1.1.conv2", "layer1.1.bn2", "layer1.1.add", "layer1.1.relu_1",
        "avgpool", "fc",
    ]  # fmt: skip
    assert graph.outputs == ["fc"]


def test_origins_are_class_and_line(seed):
    graph = load_torch(seeded(ResNet(), seed), torch.randn(1, 3, 16, 16))
    source = Path(torch_nets.__file__).read_text().splitlines()
    conv, add = graph["layer1.1.downsample.0"].origin, graph["layer1.0.add"].origin
    assert (conv.op_type, conv.name) == ("torch.nn.Conv2d", "layer1.1.downsample.0")
    assert (add.op_type, add.name) == ("torch.add", "layer1.0.add")
    for origin, code in ((conv, "self.downsample(x)"), (add, "out += identity")):
        file, line = origin.line.split(":")
        assert file == "torch_nets.py"
        assert code in source[int(line) - 1]


def test_training_mode_stays(seed):
    module = seeded(ResNet(), seed).train()
    module.layer1[0].eval()
    before = [part.training for part in module.modules()]
    statistics = module.bn1.running_mean.clone()
    load_torch(module, torch.randn(4, 3, 16, 16))
    assert [part.training for part in module.modules()] == before
    assert torch.equal(module.bn1.running_mean, statistics)


def test_nested_arguments_and_results(seed):
    module = seeded(nets.Nested(), seed)
    image, bias = torch.randn(1, 3, 6, 6), torch.randn(4, 1, 1)
    kwargs = {"scale": 2}
    found = trace(module, (image, {"bias": [bias]}, kwargs))
    assert not found.batched
    feeds = found.signature.tensors((image, {"bias": [bias]}), kwargs)
    assert list(feeds) == ["image", "extra_bias_0"]
    result = found.signature.nested(computed(found.graph, feeds))
    with torch.no_grad():
        wanted = module(image, {"bias": [bias]}, **kwargs)
    assert result.keys() == wanted.keys()
    assert (result["scale"], result["none"]) == (2, None)
    for one, other in ((result["map"], wanted["map"]), (result["again"], wanted["map"]),
                       *zip(result["many"], wanted["many"], strict=True)):  # fmt: skip
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_call_of_another_form_is_refused(seed):
    found = trace(seeded(ResNet(), seed), torch.randn(1, 3, 16, 16))
    with pytest.raises(
        Exception, match=r"^\[QUANTIZER_TORCH_SHAPE_MISMATCH\] the module was traced with 1 tensor "
    ):
        found.signature.tensors((torch.randn(1), torch.randn(1)), {})


class Timed(torch.nn.Module):
    """A convolution, and a time beside the image, as of a diffusion model."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.embed = torch.nn.Linear(1, 4)

    def forward(self, x, t):
        return self.conv(x) + self.embed(t.unsqueeze(-1))[:, :, None, None]


def test_one_sample_beside_several_is_that_of_each(seed):
    module = seeded(Timed(), seed)
    images, time = torch.randn(3, 3, 6, 6), torch.randn(1)
    found = trace(module, (images, time))
    assert found.batched
    assert (found.graph["x"].shape[0], found.graph["t"].shape) == (1, (1,))
    with torch.no_grad():
        wanted = module(images, time)
    for index in range(3):
        (one,) = computed(found.graph, {"x": images[index : index + 1], "t": time})
        torch.testing.assert_close(one, wanted[index : index + 1], rtol=1e-4, atol=1e-4)


def test_samples_that_are_mixed_stay_together(seed):
    module = seeded(nets.Joining(), seed)
    x = torch.randn(5, 6)
    found = trace(module, x)
    assert not found.batched
    assert found.graph["x"].shape == (5, 6)
    (result,) = computed(found.graph, {"x": x})
    with torch.no_grad():
        torch.testing.assert_close(result, module(x), rtol=1e-4, atol=1e-4)


def test_control_flow_on_values_is_named_with_its_line():
    with pytest.raises(UnsupportedError) as caught:
        load_torch(nets.ValueFlow(), torch.randn(1, 3))
    text = str(caught.value)
    assert text.startswith("[QUANTIZER_TORCH_PYTORCH_TRACE] ValueFlow cannot be traced")
    assert ", 'if x.sum() > 0:': " in text
    assert "torch_nets.py:" in text
    assert "torch.where or torch.cond" in text
    assert "\n" not in text


def test_a_call_that_fails_is_named_with_its_line():
    with pytest.raises(UnsupportedError, match=r"torch_nets.py:\d+, .*self.conv1.*channels"):
        load_torch(ResNet(), torch.randn(1, 4, 16, 16))


@pytest.mark.parametrize(
    ("leaf", "shape", "name"),
    [
        (torch.nn.Conv2d(3, 4, 3), (1, 3, 8, 8), "conv2d"),
        (torch.nn.ReLU(), (1, 3, 8, 8), "relu"),
        (torch.nn.Linear(4, 2), (1, 4), "linear"),
    ],
)
def test_a_single_module_is_called_as_its_operator(leaf, shape, name):
    x = torch.randn(shape)
    graph = load_torch(leaf, x)
    assert graph[name].origin.op_type == f"torch.nn.{type(leaf).__name__}"
    (result,) = computed(graph, {graph_input(graph): x})
    with torch.no_grad():
        torch.testing.assert_close(result, leaf(x), rtol=1e-4, atol=1e-4)


def test_torchscript(seed):
    module = seeded(ResNet(), seed)
    images = torch.randn(1, 3, 16, 16)
    with pytest.warns(DeprecationWarning):
        traced = torch.jit.trace(module, images)
    graph = load_torch(traced, images)
    assert Counter(n.kind for n in graph)["conv2d"] == 6
    (result,) = computed(graph, {graph_input(graph): images})
    with torch.no_grad():
        torch.testing.assert_close(result, module(images), rtol=1e-4, atol=1e-4)


def graph_input(graph):
    (name,) = (node.name for node in graph if node.kind == "data")
    return name


def test_scripts_are_refused():
    with pytest.warns(DeprecationWarning):
        script = torch.jit.script(nets.ValueFlow())
    with pytest.raises(
        UnsupportedError, match=r"QUANTIZER_TORCH_TRACED_NOT_SUPPORTED\] .*Flow has"
    ):
        load_torch(script, torch.randn(1, 3))


def test_scripts_that_only_ask_whether_they_are_trained(seed):
    """``batch_norm`` and ``dropout`` do; the answer is known."""
    module = seeded(ResNet(), seed).eval()
    with pytest.warns(DeprecationWarning):
        script = torch.jit.script(module)
    images = torch.randn(1, 3, 16, 16)
    graph = load_torch(script, images)
    (result,) = computed(graph, {graph_input(graph): images})
    with torch.no_grad():
        torch.testing.assert_close(result, module(images), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(script(images), module(images))


def test_exported_programs_from_files(seed, tmp_path):
    module = seeded(ResNet(), seed)
    images = torch.randn(2, 3, 16, 16)
    sizes = {"x": {0: torch.export.Dim("batch"), 2: torch.export.Dim("height", min=8, max=64)}}
    program = torch.export.export(module, (images,), dynamic_shapes=sizes)
    path = tmp_path / "net.pt2"
    torch.export.save(program, path)
    graph = load_model(path, {"x": (1, 3, 16, 16)})
    assert graph.name == "net"
    assert graph["layer1.0.conv1"].origin.op_type == "torch.nn.Conv2d"
    (result,) = computed(graph, {"x": images[:1]})
    with torch.no_grad():
        torch.testing.assert_close(result, module(images)[:1], rtol=1e-4, atol=1e-4)
    with pytest.raises(UnsupportedError, match="free dimensions"):
        load_program(program)


def test_files_that_are_no_programs(tmp_path, capfd):
    path = tmp_path / "net.pt2"
    with pytest.raises(ModelFormatError, match=r"net\.pt2: no such file"):
        load_model(path)
    path.write_bytes(b"PK")
    with pytest.raises(ModelFormatError, match=r"net\.pt2 is no exported program .*: no archive"):
        load_model(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "nothing")
    with pytest.raises(ModelFormatError, match=r"net\.pt2 is no exported .*: another kind of"):
        load_model(path)
    assert capfd.readouterr() == ("", "")  # PyTorch would print pages
    torch.save({"a": 1}, path)
    with pytest.raises(
        ModelFormatError, match=r"net\.pt2 is no TorchScript .* torch\.export\.save"
    ):
        load_model(path)
