# SPDX-License-Identifier: Apache-2.0
"""The execution provider in a stock onnxruntime, against the runner called by hand."""

import json
import logging
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from opendpu import api
from opendpu.onnxruntime.options import PROVIDER
from opendpu.onnxruntime.registration import RegisteredSession
from opendpu.runtime.batch import run_batch
from opendpu_arch.errors import TargetError, UnsupportedError

pytestmark = pytest.mark.usefixtures("registered")


def by_hand(model: pathlib.Path, x: np.ndarray, folder: pathlib.Path) -> list[np.ndarray]:
    """Return probabilities and feature map as the runner computes them."""
    api.compile_onnx(model, target="B512", output=folder / "hand.xmodel")
    with api.create_runner(folder / "hand.xmodel", device="iss") as runner:
        found, _ = run_batch(runner, {"x": x.transpose(0, 2, 3, 1).copy()}, floats=True)
    names = [name for name in found if name.startswith("map")]
    return [found["probabilities"], found[names[0]].transpose(0, 3, 1, 2)]


def test_a_quantized_model_gives_what_the_runner_gives(
    quantized_model: pathlib.Path,
    samples: np.ndarray,
    options: dict[str, str],
    tmp_path: pathlib.Path,
) -> None:
    session = RegisteredSession(
        str(quantized_model), providers=[PROVIDER], provider_options=[options]
    )
    assert session.get_providers()[0] == PROVIDER
    found = session.run(None, {"x": samples[:1]})
    for array, expected in zip(found, by_hand(quantized_model, samples[:1], tmp_path), strict=True):
        np.testing.assert_array_equal(array, expected)
    own = onnxruntime.InferenceSession(str(quantized_model), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(found[1], own.run(["map"], {"x": samples[:1]})[0])


def test_models_from_memory_and_providers_with_their_options(
    quantized_model: pathlib.Path, samples: np.ndarray, options: dict[str, str]
) -> None:
    given = {**options, "cacheKey": "memory"}
    session = RegisteredSession(
        quantized_model.read_bytes(), providers=[(PROVIDER, given), "CPUExecutionProvider"]
    )
    file = RegisteredSession(str(quantized_model), providers=[(PROVIDER, options)])
    assert session.get_providers()[0] == PROVIDER
    for one, other in zip(
        session.run(None, {"x": samples[:1]}), file.run(None, {"x": samples[:1]}), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_onnxruntimes_own_way_of_choosing_devices(
    quantized_model: pathlib.Path, samples: np.ndarray, options: dict[str, str]
) -> None:
    chosen = onnxruntime.SessionOptions()
    devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == PROVIDER]
    chosen.add_provider_for_devices(devices, options)
    session = RegisteredSession(str(quantized_model), chosen)
    assert session.get_providers()[0] == PROVIDER
    assert session.run(["probabilities"], {"x": samples[:1]})[0].shape == (1, 10)


def test_a_float_model_with_calibration_data(
    float_model: pathlib.Path,
    calibration: pathlib.Path,
    samples: np.ndarray,
    options: dict[str, str],
) -> None:
    given = {**options, "calibration": str(calibration)}
    session = RegisteredSession(str(float_model), providers=[PROVIDER], provider_options=[given])
    assert session.get_providers()[0] == PROVIDER
    reference = onnxruntime.InferenceSession(str(float_model), providers=["CPUExecutionProvider"])
    found, expected = (s.run(["probabilities"], {"x": samples})[0] for s in (session, reference))
    assert np.mean((found - expected) ** 2) < np.mean(expected**2) / 1000  # 30 dB


def test_a_float_model_without_calibration_data_stays_on_the_cpu(
    float_model: pathlib.Path,
    samples: np.ndarray,
    options: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "opendpu.onnxruntime"):
        session = RegisteredSession(
            str(float_model), providers=[PROVIDER], provider_options=[options]
        )
    assert caplog.text.count("the model is float: quantize it") == 1
    own = onnxruntime.InferenceSession(str(float_model), providers=["CPUExecutionProvider"])
    for one, other in zip(
        session.run(None, {"x": samples}), own.run(None, {"x": samples}), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_too_few_convolutions_stay_on_the_cpu(
    quantized_model: pathlib.Path,
    options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("XLNX_MINIMUM_NUM_OF_CONV", "9")
    with caplog.at_level(logging.WARNING, "opendpu.onnxruntime"):
        RegisteredSession(str(quantized_model), providers=[PROVIDER], provider_options=[options])
    assert "the DPU would compute 3 convolutions" in caplog.text


def test_compiled_models_are_kept_and_checked(
    quantized_model: pathlib.Path,
    samples: np.ndarray,
    options: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = []
    compile_graph = api.compile_graph
    monkeypatch.setattr(
        api, "compile_graph", lambda *a, **k: compiled.append(1) or compile_graph(*a, **k)
    )

    def run() -> np.ndarray:
        session = RegisteredSession(
            str(quantized_model), providers=[PROVIDER], provider_options=[options]
        )
        return session.run(["probabilities"], {"x": samples[:1]})[0]

    first = run()
    folder = pathlib.Path(options["cacheDir"]) / "small"
    files = {"compiled.xmodel", "signature.json", "vitisai_ep_report.json"}
    assert {path.name for path in folder.iterdir()} == files
    np.testing.assert_array_equal(run(), first)
    assert len(compiled) == 1
    (folder / "compiled.xmodel").write_bytes(b"damaged")
    np.testing.assert_array_equal(run(), first)
    assert len(compiled) == 2
    signature = json.loads((folder / "signature.json").read_text())
    (folder / "signature.json").write_text(json.dumps({**signature, "digest": "of another"}))
    run()
    assert len(compiled) == 3
    monkeypatch.setenv("XLNX_ENABLE_CACHE", "0")
    run()
    assert len(compiled) == 4


@pytest.mark.parametrize("embedded", ["0", "1"])
def test_models_with_compiled_parts_in_them(
    quantized_model: pathlib.Path,
    samples: np.ndarray,
    options: dict[str, str],
    embedded: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "context.onnx"
    chosen = onnxruntime.SessionOptions()
    chosen.add_session_config_entry("ep.context_enable", "1")
    chosen.add_session_config_entry("ep.context_file_path", str(path))
    chosen.add_session_config_entry("ep.context_embed_mode", embedded)
    first = RegisteredSession(str(quantized_model), chosen, [PROVIDER], [options])
    expected = first.run(None, {"x": samples[:1]})
    assert [node.op_type for node in onnx.load(path).graph.node] == ["EPContext"]
    assert len(list(tmp_path.glob("*.opendpu"))) == (embedded == "0")

    monkeypatch.setattr(api, "compile_graph", None)  # nothing is compiled any more
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in (path, *tmp_path.glob("*.opendpu")):
        shutil.move(file, moved / file.name)
    again = RegisteredSession(str(moved / path.name), None, [PROVIDER], [options])
    for one, other in zip(again.run(None, {"x": samples[:1]}), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_damaged_context_is_refused(tmp_path: pathlib.Path) -> None:
    node = helper.make_node(
        "EPContext", ["x"], ["y"], domain="com.microsoft", source=PROVIDER, embed_mode=0,
        ep_cache_context="../outside",
    )  # fmt: skip
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy"]
    graph = helper.make_graph([node], "context", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "context.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    with pytest.raises(Exception, match=r"'\.\./outside' is not the name of a file"):
        RegisteredSession(str(path), providers=[PROVIDER])


def test_control_flow_runs(tmp_path: pathlib.Path, options: dict[str, str]) -> None:
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])
    branches = [
        helper.make_graph([helper.make_node(kind, ["x"], ["y"])], kind, [], [value])
        for kind in ("Relu", "Neg")
    ]
    node = helper.make_node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, [1]),
    ]
    graph = helper.make_graph([node], "flow", inputs, [value])
    path = tmp_path / "flow.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    session = RegisteredSession(str(path), providers=[PROVIDER], provider_options=[options])
    x = np.array([[-1, 2, -3, 4]], np.float32)
    for flag, expected in ((True, np.maximum(x, 0)), (False, -x)):
        found = session.run(None, {"x": x, "flag": np.array([flag])})[0]
        np.testing.assert_array_equal(found, expected)


def test_bad_options_are_named(quantized_model: pathlib.Path) -> None:
    with pytest.raises(TargetError, match="B9999"):
        RegisteredSession(str(quantized_model), providers=[(PROVIDER, {"target": "B9999"})])
    with pytest.raises(UnsupportedError, match="has no option 'cachedirs'; cachedir is one"):
        RegisteredSession(str(quantized_model), providers=[(PROVIDER, {"cachedirs": "/kept"})])


def test_session_options_of_before_belong_to_one_set_of_providers(
    quantized_model: pathlib.Path, options: dict[str, str]
) -> None:
    """Options that were made before ``register()`` cannot be copied."""
    (before,) = onnxruntime.SessionOptions.__bases__
    chosen = before()
    for _ in range(2):
        RegisteredSession(str(quantized_model), chosen, [PROVIDER], [options])
    with pytest.raises(UnsupportedError, match="these SessionOptions belong to a session"):
        RegisteredSession(str(quantized_model), chosen, [PROVIDER], [{"target": "B4096"}])


def test_scripts_run_unchanged(
    quantized_model: pathlib.Path, options: dict[str, str], tmp_path: pathlib.Path
) -> None:
    config = tmp_path / "vaip_config.json"
    config.write_text(json.dumps({"passes": [], "cacheDir": options["cacheDir"], "target": "B512"}))
    (tmp_path / "beside.py").write_text("import onnxruntime\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from beside import onnxruntime\n"
        "assert 'VitisAIExecutionProvider' in onnxruntime.get_available_providers()\n"
        "import numpy as np\n"
        "session = onnxruntime.InferenceSession(\n"
        "    sys.argv[1],\n"
        "    providers=['VitisAIExecutionProvider'],\n"
        "    provider_options=[{'config_file': sys.argv[2]}])\n"
        "shape = session.get_inputs()[0].shape\n"
        "name = session.get_inputs()[0].name\n"
        "result = session.run([], {name: np.zeros((1, *shape[1:]), np.float32)})\n"
        "print(session.get_providers()[0], [r.shape for r in result])\n"
    )
    command = [sys.executable, "-m", "opendpu.onnxruntime", script, quantized_model, config]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"{PROVIDER} [(1, 10), (1, 8, 8, 8)]\n", done.stderr
