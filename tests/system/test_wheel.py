# SPDX-License-Identifier: Apache-2.0
"""The wheel: what is in it, and that it runs a model where no tools and no source tree are."""

import os
import pathlib
import subprocess
import sys
import sysconfig
import venv
import zipfile

import numpy as np
import onnx
import pytest

from opendpu.api import compile_graph
from opendpu.frontend import load_onnx
from opendpu.quantize import quantize
from opendpu.runtime import GraphRunner

pytestmark = [pytest.mark.system, pytest.mark.slow]

NEEDED = (
    "opendpu_arch/targets/DPUCZDX8G_ISA1_B4096.json",
    "xir/ops.json",
    "xir/py.typed",
    "opendpu/cpp/include/vart/runner.hpp",
    "opendpu/cpp/src/runner.cpp",
    "opendpu/cpp/ai_library/include/vitis/ai/yolov3.hpp",
    "opendpu/cpp/ai_library/proto/dpu_model_param.proto",
    "opendpu/cpp/ai_library/src/dpu_task.cpp",
    "vitis_ai_library/__init__.py",
)
COMMANDS = ("opendpu", "vai_c_xir", "vaitrace", "xdputil", "xir")


@pytest.fixture(scope="module")
def wheel(repository: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "--no-build-isolation",
         "--disable-pip-version-check", "-w", str(folder)],
        cwd=repository, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Return the Python of a new environment with the wheel, and other people's packages only.

    Those are found by a path, which does not bring in what is installed for editing.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    found = folder / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(found), "install", "--no-deps", "--no-index",
         "--disable-pip-version-check", str(wheel)],
        capture_output=True, check=True,
    )  # fmt: skip
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return found


def clean_environment(python: pathlib.Path, home: pathlib.Path) -> dict[str, str]:
    """Return an environment without compilers, and without what points to the source tree."""
    kept = {key: os.environ[key] for key in ("LANG", "LD_LIBRARY_PATH") if key in os.environ}
    return {**kept, "PATH": str(python.parent), "HOME": str(home)}


def test_contents(wheel, repository):
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entries,) = (name for name in names if name.endswith("entry_points.txt"))
        points = archive.read(entries).decode()
    assert set(NEEDED) <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "scripts/", "docs/"))]
    for command in COMMANDS:
        assert f"\n{command} = " in points
    packages = {name.split("/")[0] for name in names if "dist-info" not in name}
    sources = (
        path for part in ("arch", "hw", "sw", "sim") for path in (repository / part).iterdir()
    )
    assert packages == {path.name for path in sources if (path / "__init__.py").is_file()}


def test_a_model_runs_without_tools(python, tmp_path, rng):
    helper = onnx.helper
    weights = rng.normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="y")],
        "conv",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 8, 8))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 4, 6, 6))],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = rng.normal(0, 1, (4, 3, 8, 8)).astype(np.float32)
    compiled = compile_graph(quantize(load_onnx(made), {"x": samples}), target="B512").graph
    compiled.serialize(tmp_path / "conv.xmodel")
    with GraphRunner(compiled) as runner:
        (tensor,) = runner.get_input_tensors()
        values = rng.integers(-128, 128, tensor.dims).astype(np.int8)
        ((name, expected),) = runner.run([values]).items()
    np.save(tmp_path / "in.npy", values)
    command = ["run", "conv.xmodel", "--input", "in.npy", "--output", "out.npz", "--device", "iss"]
    done = subprocess.run(
        [str(python.parent / "opendpu"), *command],
        cwd=tmp_path, env=clean_environment(python, tmp_path), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")[name], expected)


def test_what_needs_tools_says_so(python, tmp_path):
    done = subprocess.run(
        [str(python), "-m", "opendpu.cpp"],
        cwd=tmp_path, env=clean_environment(python, tmp_path), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "the C++ library needs a compiler (c++, g++, clang++) to be built" in done.stderr


def test_packages_come_from_the_wheel(python, tmp_path):
    code = "import opendpu, opendpu_sim, vart, xir; print(opendpu.__file__, opendpu_sim.__file__)"
    done = subprocess.run(
        [str(python), "-c", code],
        cwd=tmp_path, env=clean_environment(python, tmp_path), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert all(path.startswith(str(python.parent.parent)) for path in done.stdout.split())
