# SPDX-License-Identifier: Apache-2.0
"""Models with compiled parts: the execution provider and the session without it, either way."""

import pathlib
import shutil
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import opendpu.onnxruntime
from opendpu.onnxruntime import PROVIDER
from opendpu.onnxruntime.registration import RegisteredSession
from opendpu_arch.errors import ModelFormatError, OutputError, TargetError, UnsupportedError

pytestmark = pytest.mark.usefixtures("registered")


@pytest.fixture
def session(
    registered: None, quantized_model: pathlib.Path, options: dict[str, str]
) -> onnxruntime.InferenceSession:
    return RegisteredSession(str(quantized_model), None, [PROVIDER], [options])


@pytest.fixture
def context(
    registered: None, quantized_model: pathlib.Path, options: dict[str, str],
    tmp_path: pathlib.Path,
) -> pathlib.Path:  # fmt: skip
    """Return a model with parts that are compiled for B512."""
    path = tmp_path / "context.onnx"
    chosen = onnxruntime.SessionOptions()
    chosen.add_session_config_entry("ep.context_enable", "1")
    chosen.add_session_config_entry("ep.context_file_path", str(path))
    RegisteredSession(str(quantized_model), chosen, [PROVIDER], [options])
    return path


def test_compiled_parts_for_another_target(
    context: pathlib.Path, samples: np.ndarray, options: dict[str, str],
    session: onnxruntime.InferenceSession, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    message = (
        r"context\.onnx: compiled for DPUCZDX8G_ISA1_B512 \(0x[0-9a-f]+\), but the session's "
        r"target is DPUCZDX8G_ISA1_B4096 \(0x[0-9a-f]+\)"
    )
    other = {**options, "target": "B4096"}
    with pytest.raises(Exception, match=message):
        RegisteredSession(str(context), None, [PROVIDER], [other])
    monkeypatch.setenv("XLNX_TARGET_NAME", "DPUCZDX8G_ISA1_B4096")
    with pytest.raises(Exception, match=message):
        RegisteredSession(str(context), None, [PROVIDER], [{}])
    monkeypatch.delenv("XLNX_TARGET_NAME")
    expected = session.run(["map"], {"x": samples[:1]})[0]
    for given in ({}, options):  # nothing said: its own target is meant
        again = RegisteredSession(str(context), None, [PROVIDER], [given])
        np.testing.assert_array_equal(again.run(["map"], {"x": samples[:1]})[0], expected)


def test_compiled_parts_of_which_the_target_has_more(
    context: pathlib.Path, samples: np.ndarray, options: dict[str, str],
    session: onnxruntime.InferenceSession,
) -> None:  # fmt: skip
    """As the runner has it: a program that needs no extension runs on a DPU that has some."""
    expected = session.run(["map"], {"x": samples[:1]})[0]
    more = {**options, "target": "B512+table"}
    for kind in (RegisteredSession, opendpu.onnxruntime.InferenceSession):
        again = kind(str(context), None, [PROVIDER], [more])
        np.testing.assert_array_equal(again.run(["map"], {"x": samples[:1]})[0], expected)


def test_compiled_parts_in_a_session_without_the_library(
    context: pathlib.Path, samples: np.ndarray, options: dict[str, str],
    quantized_model: pathlib.Path,
) -> None:  # fmt: skip
    wanted = RegisteredSession(str(quantized_model), None, [PROVIDER], [options])

    def described(value: Any) -> tuple[str, list[int | str | None], str]:
        return value.name, value.shape, value.type

    given = onnxruntime.SessionOptions()
    found = opendpu.onnxruntime.InferenceSession(context, given)
    assert found.get_providers()[0] == PROVIDER
    assert found.get_session_options() is given
    for one, other in ((found.get_inputs(), wanted.get_inputs()), (
        found.get_outputs(), wanted.get_outputs()
    )):  # fmt: skip
        assert [(x.name, x.shape, x.type) for x in one] == [
            (x.name, x.shape, x.type) for x in other
        ]
    for array, expected in zip(
        found.run(None, {"x": samples[:1]}), wanted.run(None, {"x": samples[:1]}), strict=True
    ):
        np.testing.assert_array_equal(array, expected)
    names = [info.name for info in wanted.get_input_memory_infos()]
    assert [info.name for info in found.get_input_memory_infos()] == names
    assert found.get_modelmeta().graph_name == wanted.get_modelmeta().graph_name
    with pytest.raises(TargetError, match=r"compiled for DPUC\w+_B512 .* is DPUC\w+_B64 "):
        opendpu.onnxruntime.InferenceSession(context, None, [PROVIDER], [{"target": "B64"}])
    with pytest.raises(ModelFormatError, match="is not the name of a file beside the model"):
        opendpu.onnxruntime.InferenceSession(context.read_bytes())
    on_cpu = opendpu.onnxruntime.InferenceSession(context, None, ["CPUExecutionProvider"])
    with pytest.raises(UnsupportedError, match=f"run with {PROVIDER} only"):
        on_cpu.run(None, {"x": samples[:1]})


def test_compiled_parts_of_others(context: pathlib.Path) -> None:
    model = onnx.load(context)
    (source,) = (a for a in model.graph.node[0].attribute if a.name == "source")
    source.s = b"QNNExecutionProvider"
    onnx.save(model, context)
    with pytest.raises(UnsupportedError, match="are of 'QNNExecutionProvider', but must be of"):
        opendpu.onnxruntime.InferenceSession(context)
    model.graph.node.append(onnx.helper.make_node("Relu", ["map"], ["more"]))
    onnx.save(model, context)
    with pytest.raises(UnsupportedError, match=r"there are other operators \(EPContext, Relu\)"):
        opendpu.onnxruntime.InferenceSession(context)


@pytest.mark.parametrize("embedded", ["0", "1"])
@pytest.mark.parametrize("named", [False, True])
def test_a_session_without_the_library_writes_compiled_parts(
    registered: None, quantized_model: pathlib.Path, samples: np.ndarray,
    options: dict[str, str], tmp_path: pathlib.Path, embedded: str, named: bool,
) -> None:  # fmt: skip
    path = tmp_path / ("context.onnx" if named else f"{quantized_model.stem}_ctx.onnx")

    def asked(path: pathlib.Path) -> onnxruntime.SessionOptions:
        chosen = onnxruntime.SessionOptions()
        chosen.add_session_config_entry("ep.context_enable", "1")
        chosen.add_session_config_entry("ep.context_embed_mode", embedded)
        if named:
            chosen.add_session_config_entry("ep.context_file_path", str(path))
        return chosen

    first = opendpu.onnxruntime.InferenceSession(
        quantized_model, asked(path), [PROVIDER], [options]
    )
    expected = first.run(None, {"x": samples[:1]})
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    copied = shutil.copy(quantized_model, theirs)
    RegisteredSession(str(copied), asked(theirs / path.name), [PROVIDER], [options])
    assert (theirs / path.name).exists()  # by the same name
    assert len(list(tmp_path.glob("*.opendpu"))) == (embedded == "0")
    onnx.checker.check_model(onnx.load(path))
    for kind in (RegisteredSession, opendpu.onnxruntime.InferenceSession):
        again = kind(str(path), None, [PROVIDER], [options])
        for one, other in zip(again.run(None, {"x": samples[:1]}), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(OutputError, match=f"{path.name}: .* there already"):
        opendpu.onnxruntime.InferenceSession(quantized_model, asked(path), [PROVIDER], [options])


def test_compiled_parts_of_a_model_from_memory_need_a_path(
    quantized_model: pathlib.Path, options: dict[str, str]
) -> None:
    chosen = onnxruntime.SessionOptions()
    chosen.add_session_config_entry("ep.context_enable", "1")
    with pytest.raises(OutputError, match=r"ep\.context_file_path must be given"):
        opendpu.onnxruntime.InferenceSession(
            quantized_model.read_bytes(), chosen, [PROVIDER], [options]
        )
