# SPDX-License-Identifier: Apache-2.0
"""Errors and warnings of ``torch_quantizer`` and its like have the guide's ids and say why."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402
from small_nets import Joining  # noqa: E402
from torch import nn  # noqa: E402

from opendpu_arch.errors import TargetError, UnsupportedError  # noqa: E402
from pytorch_nndct import traced_module  # noqa: E402
from pytorch_nndct.apis import Inspector, dump_xmodel, torch_quantizer  # noqa: E402
from pytorch_nndct.messages import VAIQError  # noqa: E402
from pytorch_nndct.utils import register_custom_op  # noqa: E402

CALL = (torch.randn(4, 5, generator=torch.Generator().manual_seed(1)),)


class Net(nn.Module):
    """Small and fast to trace."""

    def __init__(self, width=5):
        super().__init__()
        self.fc = nn.Linear(5, width)

    def forward(self, x):
        return torch.relu(self.fc(x))


def made(mode, module=None, call=CALL, **options):
    module = module or seeded(Net(), 1)
    return torch_quantizer(mode, module, call, **{"device": "cpu", **options})


def calibrated(module=None, **options):
    found = made("calib", module, **options)
    found.quant_model(*CALL)
    found.export_quant_config()


def error(code, text):
    """Expect an error of the guide with this text."""
    return pytest.raises(VAIQError, match=rf"^\[VAIQ_ERROR\]\[QUANTIZER_TORCH_{code}\]: .*{text}")


def warned(capsys, code):
    """Return the text of the only warning with an id that was printed."""
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if f"[VAIQ_WARN][QUANTIZER_TORCH_{code}]: " in line]
    return line.split("]: ", 1)[1]


def test_modes():
    with pytest.raises(
        UnsupportedError, match="quant_mode is 'float', but must be one of calib, t"
    ):
        made("float")


def test_what_scripts_export_in_both_modes(capsys):
    found = made("calib")
    found.quant_model(*CALL)
    found.export_quant_config()
    before = Path("quantize_result/quant_info.json").read_text()
    files = sorted(Path().rglob("*"))
    found.export_xmodel()
    found.export_onnx_model()
    assert found.export_torch_script() is None
    assert sorted(Path().rglob("*")) == files
    said = capsys.readouterr().out
    for name in ("export_xmodel", "export_onnx_model", "export_torch_script"):
        assert f"[VAIQ_NOTE]: {name} writes nothing in quant_mode 'calib'; use 'test'" in said
    made("test").export_quant_config()
    assert Path("quantize_result/quant_info.json").read_text() == before
    assert "quant_info.json stays as quant_mode 'calib' wrote it" in capsys.readouterr().out


def test_calibration_that_never_called_the_module():
    with error("NO_CALIBRATION", "quant_model was never called before export_quant_config"):
        made("calib").export_quant_config()
    found = made("calib")
    with error("NO_CALIBRATION", "quant_model was never called before fast_finetune"):
        found.fast_finetune(lambda: None, ())


def test_test_mode_without_calibration():
    with error(
        "NO_CALIB_RESULT", "quant_info.json cannot be used: it is missing; run in quant_mode"
    ):
        made("test")
    calibrated()
    Path("quantize_result/quant_info.json").write_text("{")
    with error("NO_CALIB_RESULT", "quant_info.json cannot be used: Expecting"):
        made("test")
    Path("quantize_result/quant_info.json").write_text("{}")
    with error("NO_CALIB_RESULT", "cannot be used: it has not what calibration writes"):
        made("test")


def test_results_of_another_module():
    calibrated()
    with error("CALIB_RESULT_MISMATCH", "for a module Net with other layers or sizes"):
        made("test", seeded(Net(width=6), 1))
    with error("BIAS_CORRECTION", "bias_corr.pth is of other weights than this module"):
        made("test", seeded(Net(), 2))
    Path("quantize_result/bias_corr.pth").unlink()
    with error("BIAS_CORRECTION", "bias_corr.pth cannot be used: no such file"):
        made("test")
    torch.save({}, "quantize_result/bias_corr.pth")
    with error("BIAS_CORRECTION", "bias_corr.pth has no bias 'fc"):
        made("test")
    Path("quantize_result/Net.pth").write_bytes(b"no archive")
    with error("NO_CALIB_RESULT", "Net.pth cannot be used: "):
        made("test")


def test_export_before_the_first_call():
    calibrated()
    found = made("test")
    for export in (found.export_xmodel, found.export_onnx_model, found.export_torch_script):
        with error("NO_FORWARD", "must be called at least once"):
            export()
    assert not list(Path("quantize_result").glob("*_int.*"))


def test_bit_widths(capsys):
    for width in (1, 17, 8.5, "8"):
        with error("ILLEGAL_BITWIDTH", f"bitwidth is {width!r}, but must be an integer in 2..16"):
            made("calib", bitwidth=width)
    Path("config.json").write_text(json.dumps({"overall_quantize_config": {"bit_width": 8}}))
    made("calib", bitwidth=4, quant_config_file="config.json")
    assert warned(capsys, "BITWIDTH_MISMATCH") == (
        "config.json has 8 bits, the argument bitwidth 4; the file counts"
    )


def test_configurations():
    Path("config.json").write_text(json.dumps({"overall_quantize_config": {"methods": "mse"}}))
    with error("QUANT_CONFIG", "has no key 'methods'; keys are: "):
        made("calib", quant_config_file="config.json")
    rule = {
        "layer_type": None, "layer_name": "Net::Net/Linear[head]/input.2",
        "quantizable_data_type": ["weights"], "overall_quantize_config": {},
    }  # fmt: skip
    Path("config.json").write_text(json.dumps({"layer_quantize_config": [rule]}))
    with error("QUANT_CONFIG", r"names layer 'Net::Net/Linear\[head\]/input.2', which the module"):
        made("calib", quant_config_file="config.json")


def test_targets():
    with pytest.raises(TargetError, match="DPUCAHX8L_ISA0_SP"):
        made("calib", target="DPUCAHX8L_ISA0_SP")
    with error("INSPECTOR_INPUT_FORMAT", "DPUCAHX8L_ISA0_SP"):
        Inspector("DPUCAHX8L_ISA0_SP")


def test_a_gpu_that_is_missing(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    found = made("calib", device=torch.device("cuda"))
    assert "the CPU is used" in warned(capsys, "CUDA_UNAVAILABLE")
    assert torch.is_tensor(found.quant_model(*CALL))


def test_inputs_on_another_device(capsys):
    with pytest.raises(Exception, match="meta"):  # a device that holds no values
        made("calib", call=(torch.empty(4, 5, device="meta"),))
    assert "input_args are on meta, the quantizer is on cpu" in warned(capsys, "DEVICE_MISMATCH")


def test_data_parallel(capsys):
    found = made("calib", nn.DataParallel(seeded(Net(), 1)))
    assert "DataParallel of Net is left out" in warned(capsys, "DATA_PARALLEL")
    assert found.quant_model(*CALL).shape == (4, 5)


def test_modules_that_cannot_be_traced():
    class Flow(nn.Module):
        def forward(self, x):
            return x * 2 if x.max() > 0 else x

    with error("PYTORCH_TRACE", "Flow cannot be traced by torch.export: test_errors.py:"):
        made("calib", Flow())
    with error("PYTORCH_TRACE", "module is str, but must be a torch.nn.Module"):
        made("calib", "net.pth")
    with error("PYTORCH_TRACE", "input_args is missing"):
        made("calib", call=None)
    with pytest.warns(DeprecationWarning):
        script = torch.jit.script(Flow())
    with error("TRACED_NOT_SUPPORTED", "Flow has prim::If"):
        made("calib", script)


def test_calls_of_another_shape():
    found = made("calib").quant_model
    with error("SHAPE_MISMATCH", r"input 'x' has shape \[4, 6\], but must be \[N, 5\]"):
        found(torch.zeros(4, 6))
    with error(
        "SHAPE_MISMATCH", r"the module was traced with 1 tensor \(x\), but is called with 2"
    ):
        found(torch.zeros(4, 5), torch.zeros(4, 5))


def test_what_only_the_other_mode_has(capsys):
    calibrated()
    found = made("test")
    found.fast_finetune(lambda: None, ())
    assert "call load_ft_param in mode 'test'" in warned(capsys, "FINETUNE_IGNORED")
    assert found.deploy_model is None
    assert "only quantization aware training" in warned(capsys, "DEPLOY_MODEL")


def test_finetuning_without_memory(capsys, monkeypatch):
    def full(*_, **__):
        raise MemoryError

    monkeypatch.setattr(traced_module, "quantize_with_report", full)
    found = made("calib")
    found.fast_finetune(found.quant_model, CALL)
    assert "not enough memory" in warned(capsys, "MEMORY_SHORTAGE")


def test_finetuned_parameters_of_another_module():
    torch.save({"structure": "", "weights": ""}, "param.pth")
    calibrated()
    found = made("test")
    with error("FAST_FINETUNE", "param.pth cannot be used: no such file"):
        found.load_ft_param()
    Path("param.pth").rename("quantize_result/param.pth")
    with error("FAST_FINETUNE", "param.pth was finetuned from another module"):
        found.load_ft_param()


def test_a_batch_that_cannot_be_taken_apart():
    module, call = seeded(Joining(), 1), (torch.randn(3, 6),)
    found = made("calib", module, call)
    found.quant_model(*call)
    found.export_quant_config()
    tested = made("test", module, call)
    tested.quant_model(*call)
    with error("XMODEL_BATCHSIZE", r"Joining mixes the samples of its inputs \(x: \[3, 6\]\)"):
        tested.export_xmodel()


def test_arguments_that_are_not_for_this_dpu():
    with pytest.raises(UnsupportedError, match="lstm is True, but must be False"):
        made("calib", lstm=True)
    with pytest.raises(UnsupportedError, match="app_deploy is 'NLP', but must be 'CV'"):
        dump_xmodel(app_deploy="NLP")


def test_custom_operations():
    @register_custom_op("TestErrorsOp", attrs_list=["scale"])
    def operation(ctx, x, scale):
        return x * scale

    assert torch.equal(operation(torch.ones(2), scale=3), torch.full((2,), 3.0))
    with error("OP_REGIST", "'TestErrorsOp' is registered already, for .*operation"):
        register_custom_op("TestErrorsOp")
    with error("OP_REGIST", "attrs_list of operation 'TestErrorsOther' has 'alpha', but the param"):
        register_custom_op("TestErrorsOther", ["alpha"])(lambda ctx, x: x)
    pair = register_custom_op("TestErrorsPair")(lambda ctx, x: (x, x))
    with error("UNSUPPORTED_OPS", "'TestErrorsPair' returns tuple, but must return one tensor"):
        pair(torch.ones(2))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_module_that_pytorch_has_quantized():
    """Its state holds more than tensors."""
    net = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 2)).eval(), {nn.Linear})
    with pytest.raises(VAIQError, match=r"changed by torch\.ao\.quantization: '0' is"):
        torch_quantizer("calib", net, (torch.randn(1, 4),), device=torch.device("cpu"))
