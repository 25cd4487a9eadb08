# SPDX-License-Identifier: Apache-2.0
"""``torch_quantizer``: results are those of the compiled program, nested as the module's."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

import onnxruntime  # noqa: E402
from frameworks.torch_nets import ResNet, seeded  # noqa: E402
from small_nets import Joining, TwoHeads, compiled, loaded, ratio  # noqa: E402

from opendpu import api  # noqa: E402
from pytorch_nndct.apis import dump_xmodel, load_vai_ops, torch_quantizer  # noqa: E402
from pytorch_nndct.messages import VAIQError  # noqa: E402

RESULT = Path("quantize_result")


def calibrated(module, *batches, **options):
    """Calibrate a module with calls; return a quantizer in test mode."""
    first = batches[0]
    quantizer = torch_quantizer("calib", module, first, device="cpu", **options)
    module.eval()
    with torch.no_grad():
        for batch in batches:
            found = quantizer.quant_model(*batch)
            wanted = module(*batch)
            for one, other in zip(*(torch.utils._pytree.tree_leaves(r) for r in (found, wanted)),
                                  strict=True):  # fmt: skip
                assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))
    quantizer.export_quant_config()
    return torch_quantizer("test", module, first, device="cpu", **options)


def test_every_export_computes_what_test_mode_does(seed):
    module = seeded(ResNet(), seed)
    batches = [(torch.randn(8, 3, 16, 16),) for _ in range(4)]
    quantizer = calibrated(module, *batches)
    images = torch.randn(5, 3, 16, 16)
    found = quantizer.quant_model(images)
    with torch.no_grad():
        assert ratio(found, module(images)) > 20
    quantizer.export_xmodel(deploy_check=True)
    assert torch.equal(compiled(RESULT / "ResNet_int.xmodel", images), found)
    script = quantizer.export_torch_script()
    assert torch.equal(script(images), found)
    assert torch.equal(loaded("quantize_result/ResNet_int.pt")(images), found)
    quantizer.export_onnx_model(dynamic_batch=True, check_model=True, dump_layers=True)
    assert torch.equal(run_onnx(images), found)
    assert (RESULT / "onnx_layers").is_dir()
    load_vai_ops()
    quantizer.export_onnx_model(native_onnx=False, opt_graph=False)
    assert torch.equal(torch.cat([run_onnx(image[None]) for image in images]), found)


def run_onnx(images):
    session = onnxruntime.InferenceSession(RESULT / "ResNet_int.onnx")
    (result,) = session.run(None, {"x": images.numpy()})
    return torch.from_numpy(result)


def test_one_module_in_batches_of_other_sizes(seed):
    module = seeded(ResNet(), seed)
    quantizer = calibrated(module, (torch.randn(4, 3, 16, 16),), (torch.randn(7, 3, 16, 16),))
    images = torch.randn(3, 3, 16, 16)
    whole = quantizer.quant_model(images)
    each = torch.cat([quantizer.quant_model(image[None]) for image in images])
    assert torch.equal(whole, each)


def test_results_are_nested_as_the_modules(seed):
    module = seeded(TwoHeads(), seed)
    calls = [(torch.randn(6, 3, 8, 8), torch.randn(6, 3, 8, 8)) for _ in range(3)]
    quantizer = calibrated(module, *calls)
    found = quantizer.quant_model(*calls[0])
    with torch.no_grad():
        wanted = module(*calls[0])
    assert found.keys() == wanted.keys()
    assert found["scale"] == 2
    assert ratio(found["map"], wanted["map"]) > 25
    assert ratio(found["classes"][0], wanted["classes"][0]) > 20
    assert found["classes"][0].sum(1) == pytest.approx(1, abs=1e-5)
    assert quantizer.quant_model.scale == 2  # attributes of the float module


def test_a_module_that_mixes_samples(seed):
    module = seeded(Joining(), seed)
    quantizer = calibrated(module, *((torch.randn(4, 6),) for _ in range(8)))
    x = torch.randn(4, 6)
    with torch.no_grad():
        assert ratio(quantizer.quant_model(x), module(x)) > 20


def test_the_files_say_what_was_found(seed):
    module = seeded(ResNet(), seed)
    calibrated(module, (torch.randn(16, 3, 16, 16),))
    info = json.loads((RESULT / "quant_info.json").read_text())
    assert info["fast_finetuned"] is False
    assert info["bias_corrected"] is True
    name = (
        "ResNet::ResNet/Sequential[layer1]/BasicBlock[1]/Sequential[downsample]/Conv2d[0]/conv2d_3"
    )
    assert info["output"][name][0][0] == 8
    assert set(info["input"]) == {"x"}
    assert info["param"]["layer1.0.conv1.weight"][0][0] == 8
    biases = torch.load(RESULT / "bias_corr.pth")
    assert len(biases) == sum(key.endswith(".bias") for key in info["param"]) == 7


def test_the_program_it_writes_is_the_module(seed):
    module = seeded(ResNet(), seed).eval()
    calibrated(module, (torch.randn(4, 3, 16, 16),))
    text = (RESULT / "ResNet.py").read_text()
    assert "# ResNet::ResNet/Conv2d[conv1]/conv2d\n" in text
    names: dict[str, object] = {}
    exec(compile(text, "ResNet.py", "exec"), names)
    images = torch.randn(1, 3, 16, 16)
    with torch.no_grad():
        (found,) = names["ResNet"](module.state_dict())(images)
        assert torch.equal(found, module(images))


def test_deploy_check_is_what_the_dpu_computes(seed):
    module = seeded(ResNet(), seed)
    quantizer = calibrated(module, (torch.randn(16, 3, 16, 16),))
    image = torch.randn(1, 3, 16, 16)
    found = quantizer.quant_model(image)
    dump_xmodel(deploy_check=True)
    folder = RESULT / "deploy_check_data_int"
    values = np.fromfile(folder / "quant_fc.bin", np.int8)
    point = json.loads((RESULT / "quant_info.json").read_text())["output"]
    point = point["ResNet::ResNet/Linear[fc]/linear"][0][1]
    np.testing.assert_array_equal(values * 2.0**-point, found.numpy().ravel())
    lines = (folder / "quant_fc.txt").read_text().split()
    assert [int(line) for line in lines] == values.tolist()


def test_finetuning_in_the_same_process(seed, monkeypatch):
    from opendpu.quantize import FinetuneConfig
    from pytorch_nndct.apis import quantizer as own

    monkeypatch.setattr(own, "FINETUNING", FinetuneConfig(iterations=3, samples=8))
    module = seeded(ResNet(), seed)
    data = torch.randn(16, 3, 16, 16)
    quantizer = torch_quantizer("calib", module, (data,), device="cpu")
    calls = []

    def loop(model, batches, extra):
        calls.append(extra)
        for batch in batches:
            model(batch)

    quantizer.fast_finetune(loop, (quantizer.quant_model, data.split(8), "extra"))
    assert calls == ["extra"]
    quantizer.quant_model(data)
    quantizer.export_quant_config()
    assert json.loads((RESULT / "quant_info.json").read_text())["fast_finetuned"] is True
    tested = torch_quantizer("test", module, (data,), device="cpu")
    tested.load_ft_param()
    found = tested.quant_model(data[:4])
    tested.export_xmodel()
    assert torch.equal(compiled(RESULT / "ResNet_int.xmodel", data[:4]), found)


class Shifted(torch.nn.Module):
    """A convolution of an image, and an offset a channel."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x, y):
        return self.conv(x) + y


def test_one_sample_beside_several(seed):
    module = seeded(Shifted(), seed)
    images, offset = torch.randn(6, 3, 8, 8), torch.randn(1, 4, 1, 1)
    quantizer = calibrated(module, (images, offset))
    found = quantizer.quant_model(images, offset)
    assert torch.equal(found, quantizer.quant_model(images, offset.repeat(6, 1, 1, 1)))
    with pytest.raises(VAIQError, match=r"SHAPE_MISMATCH.*the inputs hold \[2, 6\] samples"):
        quantizer.quant_model(images, offset.repeat(2, 1, 1, 1))


class Pyramid(torch.nn.Module):
    """Convolutional throughout, with places that it computes from the size."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, 2, 1)

    def forward(self, x):
        x = torch.relu(self.conv(x))
        return x + torch.arange(x.shape[-1], dtype=x.dtype)


@pytest.mark.parametrize("finetuned", [False, True])
def test_calls_with_other_sizes_than_the_trace(finetuned, seed):
    module, example, images = (
        seeded(Pyramid(), seed),
        torch.randn(1, 3, 8, 8),
        torch.randn(6, 3, 12, 16),
    )
    quantizer = torch_quantizer("calib", module, example, device="cpu")
    if finetuned:
        quantizer.fast_finetune(quantizer.quant_model, (images,))
    assert torch.equal(quantizer.quant_model(images), module.eval()(images))
    quantizer.export_quant_config()
    tested = torch_quantizer("test", module, example, device="cpu")
    if finetuned:
        tested.load_ft_param()
    found = tested.quant_model(images)
    tested.export_xmodel()
    assert torch.equal(compiled(RESULT / "Pyramid_int.xmodel", images), found)
    with pytest.raises(VAIQError, match="SHAPE_MISMATCH"):
        tested.quant_model(example)


def test_the_xmodel_compiles_for_every_size(seed):
    module = seeded(TwoHeads(), seed)
    call = (torch.randn(8, 3, 8, 8), torch.randn(8, 3, 8, 8))
    quantizer = calibrated(module, call)
    quantizer.quant_model(*call)
    quantizer.export_xmodel("out")
    for target in ("DPUCZDX8G_ISA1_B512", "DPUCZDX8G_ISA1_B4096"):
        report = api.compile_xmodel("out/TwoHeads_int.xmodel", target=target, output="c.xmodel")
        assert any("softmax" in name for name in report.on_cpu)
