# SPDX-License-Identifier: Apache-2.0
"""Dumps and their comparison with golden files."""

import pathlib

import numpy as np
import pytest

from opendpu.runtime import Runner
from opendpu.runtime.crosscheck import layer_name
from opendpu_arch.errors import OutputError, TensorError

SWITCHES = ("DUMP", "DEBUG_MODE", "UPLOAD", "CLEAR")


@pytest.fixture
def switched(monkeypatch, tmp_path):
    """Return a function that sets variables; the current folder is a temporary one."""
    for name in SWITCHES:
        monkeypatch.delenv(f"XLNX_ENABLE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)

    def switch(*names: str, golden: pathlib.Path | None = None) -> None:
        for name in names:
            monkeypatch.setenv(f"XLNX_ENABLE_{name}", "1")
        if golden is not None:
            monkeypatch.setenv("XLNX_GOLDEN_DIR", str(golden))

    return switch


def dumped() -> dict[str, bytes]:
    return {
        str(path.relative_to("dump")): path.read_bytes()
        for path in sorted(pathlib.Path("dump").rglob("*.bin"))
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a/b.c:0", "a_b_c_0"),
        ("quant_dense(TransferMatMulToConv2d)_x", "quant_dense_x"),
        ("a(b(c)d)e(f)", "ae"),
        ("a(b", "a_b"),
        ("../..", "_____"),
        ("/etc/passwd", "_etc_passwd"),
    ],
)
def test_names_of_files(name, expected):
    assert layer_name(name) == expected


def test_nothing_is_asked_for(copy_subgraph, fake_device, image, switched):
    assert Runner(copy_subgraph, device=fake_device)._crosscheck is None
    assert not pathlib.Path("dump").exists()


def test_what_is_in_memory_is_dumped(copy_subgraph, fake_device, image, switched):
    switched("DUMP")
    Runner(copy_subgraph, device=fake_device).run([image])
    assert dumped() == {
        "subgraph_y/input/0.x.bin": image.tobytes(),
        "subgraph_y/internal/0.y_inner.bin": image.tobytes(),
        "subgraph_y/output/0.y.bin": image.tobytes(),
    }
    assert fake_device.jobs[0].wanted is None


def test_layer_by_layer(copy_subgraph, image, switched, capsys):
    switched("DUMP", "DEBUG_MODE")
    upload, middle, download = copy_subgraph.toposort()
    copy_subgraph.split([("in(x)", [upload]), ("l/1", [middle, download])])
    Runner(copy_subgraph, device="iss").run([image])
    assert dumped() == {
        "in/output/0.x_upload.bin": image.tobytes(),
        "l_1/input/0.x_upload.bin": image.tobytes(),
        "l_1/internal/0.y_inner.bin": image.tobytes(),
        "subgraph_y/input/0.x.bin": image.tobytes(),
        "subgraph_y/output/0.y.bin": image.tobytes(),
    }
    assert "gives other results" not in capsys.readouterr().err


def test_a_program_that_is_not_its_ops_is_told(copy_subgraph, fake_device, image, switched, capsys):
    switched("DUMP", "DEBUG_MODE")
    fake_device.work = lambda job: None
    Runner(copy_subgraph, device=fake_device).run([image])
    assert "layer_name y the program gives other results than ops" in capsys.readouterr().err


def test_golden_files(copy_subgraph, fake_device, image, switched, tmp_path, capsys):
    (tmp_path / "x.bin").write_bytes(image.tobytes())  # the name outside the subgraph
    (tmp_path / "y.bin").write_bytes(bytes(24))
    switched(golden=tmp_path)
    Runner(copy_subgraph, device=fake_device).run([image])
    lines = capsys.readouterr().err.splitlines()
    success, missing, failed = lines
    assert success.startswith("XLNX_GOLDEN_DIR: compare data success !layer_name x ")
    assert missing.startswith("XLNX_GOLDEN_DIR: compare data fail ! golden file is not exist : ")
    assert "layer_name y_inner" in missing
    assert failed.startswith("XLNX_GOLDEN_DIR: compare data fail ! layer_name y ")
    assert str(tmp_path / "y.bin") in failed
    assert not pathlib.Path("dump").exists()


def test_inputs_from_golden_files(copy_subgraph, fake_device, image, switched, tmp_path, capsys):
    (tmp_path / "x_upload.bin").write_bytes((image + 1).tobytes())
    switched("UPLOAD", golden=tmp_path)
    runner = Runner(copy_subgraph, device=fake_device)
    np.testing.assert_array_equal(runner.run([image])["y"], image + 1)
    assert "upload data success ! layer_name x" in capsys.readouterr().err
    (tmp_path / "x_upload.bin").write_bytes(b"short")
    with pytest.raises(TensorError, match=r"has 5 bytes, but input 'x' has 24") as caught:
        runner.run([image])
    assert caught.value.code == "VART_SIZE_MISMATCH"
    (tmp_path / "x_upload.bin").unlink()
    np.testing.assert_array_equal(runner.run([image])["y"], image)
    assert "upload data fail ! golden file is not exist" in capsys.readouterr().err


def test_memory_is_cleared(copy_subgraph, fake_device, image, switched):
    switched("CLEAR")
    fake_device.work = lambda job: None
    found = Runner(copy_subgraph, device=fake_device).run([image])["y"]
    assert found.ravel().tolist() == list(range(24))


def test_counters(copy_subgraph, fake_device, image, switched, monkeypatch, capsys):
    monkeypatch.setenv("XLNX_SHOW_DPU_COUNTER", "1")
    copy_subgraph.set_attr("workload", 48)
    Runner(copy_subgraph, device=fake_device).run([image])
    text = capsys.readouterr().err
    assert text == "subgraph name : subgraph_y\nworkload 48 cycles 1\n"


def test_a_folder_that_cannot_be_made(copy_subgraph, fake_device, image, switched):
    switched("DUMP")
    pathlib.Path("dump").write_text("in the way")
    with pytest.raises(OutputError, match="cannot be made: Not a directory") as caught:
        Runner(copy_subgraph, device=fake_device).run([image])
    assert caught.value.code == "VART_CONTROLLER_DUMP_FOLDER_CREATE_ERROR"
