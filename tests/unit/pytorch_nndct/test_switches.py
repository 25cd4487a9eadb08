# SPDX-License-Identifier: Apache-2.0
"""AMD's switches: on the command line of a script, in its text, and what they change."""

import json
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from nndct_shared.utils import (  # noqa: E402
    NndctDebugLogger,
    NndctOption,
    NndctScreenLogger,
    PatternType,
    QError,
    QWarning,
    option_list,
    option_util,
)
from nndct_shared.utils.option_util import take_options  # noqa: E402
from opendpu.quantize import QuantizeConfig  # noqa: E402
from opendpu_arch.errors import UnsupportedError  # noqa: E402
from pytorch_nndct.apis import torch_quantizer  # noqa: E402
from pytorch_nndct.settings import config_of  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(option_util, "_VALUES", {})
    monkeypatch.setattr(NndctDebugLogger, "_path", None)


def test_a_command_line_keeps_what_is_the_scripts_own():
    rest = take_options([
        "--quant_mode", "calib", "--nndct_convert_silu_to_hswish", "--nndct_equalization", "False",
        "--nndct_param_corr=False", "--nndct_quant", "--nndct_quant_opt", "0", "data",
        "--nndct_visualize", "folder", "--nndct_leaky_relu_approximate", "--batch", "4",
    ])  # fmt: skip
    assert rest == [
        "--quant_mode", "calib", "--nndct_quant", "data", "folder", "--batch", "4",
    ]  # fmt: skip
    assert NndctOption.nndct_convert_silu_to_hswish.value is True
    assert NndctOption.nndct_visualize.value is True
    assert NndctOption.nndct_equalization.value is False
    assert NndctOption.nndct_param_corr.value is False
    assert NndctOption.nndct_quant_opt.value == 0


def test_defaults_are_those_of_amd():
    assert NndctOption.nndct_equalization.value is True
    assert NndctOption.nndct_diffs_mode.value == "mse"
    assert NndctOption.nndct_convert_relu6_to_relu.value is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nndct_equalization=no"], "option --nndct_equalization is 'no', but must be True or"),
        (["--nndct_quant_opt"], "option --nndct_quant_opt is '', but must be of type int"),
        (["--nndct_quant_opt", "--x"], "option --nndct_quant_opt is '', but must be of type int"),
    ],
)
def test_values_of_another_kind(arguments, message):
    with pytest.raises(UnsupportedError, match=message):
        take_options(arguments)


def test_what_switches_change():
    plain = config_of(None, None, None)
    assert plain == QuantizeConfig.with_method("diffs")
    take_options(["--nndct_equalization=False", "--nndct_convert_relu6_to_relu"])
    config = config_of(None, None, None)
    assert not config.join_outputs
    option_list.NndctOption.nndct_join_outputs.value = True  # as scripts import it, too
    assert config_of(None, None, None).join_outputs
    assert (config.cross_layer, config.bias_correction, config.relu6_to_relu) == (False, True, True)
    option_util.set_option_value("nndct_quant_opt", 0)
    option_util.set_option_value("nndct_equalization", True)
    NndctOption.nndct_diffs_mode.value = "maxmin"
    config = config_of(None, None, None)
    assert (config.cross_layer, config.bias_correction) == (True, False)
    assert (config.weights.method, config.activation.statistic) == ("max", "modal")


def test_a_file_counts_where_it_says_something(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"include_cle": True, "convert_silu_to_hswish": False}))
    take_options(["--nndct_equalization=False", "--nndct_param_corr=False",
                  "--nndct_convert_sigmoid_to_hsigmoid"])  # fmt: skip
    config = config_of(file, None, None)
    assert (config.cross_layer, config.bias_correction) == (True, False)
    assert config.activation_substitution == "none"


def test_silu_becomes_hard_in_calibration_and_test(tmp_path, capsys):
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.SiLU(), torch.nn.Conv2d(8, 4, 1))
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    take_options(["--nndct_convert_silu_to_hswish"])
    for mode in ("calib", "test"):
        quantizer = torch_quantizer(mode, net, (x[:1],), output_dir=tmp_path, device="cpu")
        made = quantizer.quant_model(x)
        quantizer.export_quant_config() if mode == "calib" else quantizer.export_xmodel(tmp_path)
    assert "QUANTIZER_TORCH_REPLACE_SILU" in capsys.readouterr().out
    hard = torch.nn.Sequential(net[0], torch.nn.Hardswish(), net[2])
    with torch.no_grad():
        error = (made - net(x)).square().mean(), (made - hard(x)).square().mean()
    assert error[1] < 0.01 * net(x).square().mean()


def test_importing_takes_switches_out_of_the_command_line(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, pytorch_nndct\n"
        "from nndct_shared.utils import NndctOption\n"
        "print(sys.argv[1:], NndctOption.nndct_convert_silu_to_hswish.value)\n"
    )
    command = [sys.executable, script, "--mode", "calib", "--nndct_convert_silu_to_hswish"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['--mode', 'calib'] True"


def test_messages_on_the_screen(capsys):
    logger = NndctScreenLogger()
    assert logger is NndctScreenLogger()
    logger.info("begins")
    logger.warning("of %s, %d times", "no effect", 2)
    for _ in range(2):
        logger.warning_once("said once")
        logger.info_once("noted once")
        logger.warning2user_once(QWarning.LEAKYRELU, "slope")
    logger.error("wrong")
    logger.error2user(QError.NO_CALIBRATION, "never called")
    logger.check("not printed", True)
    with pytest.raises(SystemExit):
        logger.check("ends", False)
    with pytest.raises(SystemExit, match="2"):
        logger.check2user(QError.QUANT_CONFIG, "bad", [], 2)
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert lines == [
        "[VAIQ_NOTE]: begins",
        "[VAIQ_WARN]: of no effect, 2 times",
        "[VAIQ_WARN]: said once",
        "[VAIQ_NOTE]: noted once",
        "[VAIQ_WARN][QUANTIZER_TORCH_LEAKYRELU]: slope",
        "[VAIQ_ERROR]: wrong",
        "[VAIQ_ERROR][QUANTIZER_TORCH_NO_CALIBRATION]: never called",
        "[VAIQ_ERROR]: ends",
        "[VAIQ_ERROR][QUANTIZER_TORCH_QUANT_CONFIG]: bad",
    ]


def test_a_file_for_messages(tmp_path):
    with pytest.raises(UnsupportedError, match="NndctDebugLogger has no file; begin one first"):
        NndctDebugLogger.write("lost")
    NndctDebugLogger(tmp_path / "debug.log")
    NndctDebugLogger.write("a graph\n")
    NndctDebugLogger.write("another\n")
    assert pathlib.Path(tmp_path / "debug.log").read_text() == "a graph\nanother\n"


def test_patterns_are_values():
    assert PatternType(["conv2d", "relu"]).pattern == ["conv2d", "relu"]
