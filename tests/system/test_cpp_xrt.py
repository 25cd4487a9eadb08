# SPDX-License-Identifier: Apache-2.0
"""XRT beside VART in C++: its classes, and its C interface."""

import errno
import pathlib
import sys

import numpy as np
import pytest

import opendpu.cpp
import xir
from opendpu.runtime import Runner
from opendpu.runtime.program import dpu_subgraphs

sys.path.append(str(pathlib.Path(__file__).parent))

from cpp_vart import built, run

pytestmark = pytest.mark.system


def test_memory_from_xrt_and_runners_by_name(prefix, model, values, tmp_path):
    program = built(prefix, tmp_path, "zero_copy")
    values.tofile(tmp_path / "in.bin")
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(model))
    lines = run(
        program, model, dpu.get_name(), tmp_path / "in.bin", OPENDPU_DEVICE="ref"
    ).stdout.splitlines()
    with Runner(dpu, device="iss") as runner:
        expected = list(runner.run([values]).values())
        (taken,), made = runner.get_input_tensors(), runner.get_output_tensors()
    scales = [2.0 ** -t.get_attr("fix_point") for t in made]
    assert lines[0] == f"input scale {2 ** taken.get_attr('fix_point')}"
    assert [float(word) for word in lines[1].split()[2:]] == scales
    moved = [op for op in dpu.toposort() if op.get_type() == "download"]
    places = {op.get_output_tensor().name: op.get_input_tensors()[0] for op in moved}
    offsets = [places[tensor.name].get_attr("ddr_addr") for tensor in made]
    assert len(set(offsets)) == 2
    assert lines[2:4] == ["input offsets 0", f"output offsets {offsets[0]} {offsets[1]}"]
    types = ["CONST", "DATA_GLOBAL", "DATA_LOCAL_INPUT", "DATA_LOCAL_OUTPUT"]
    sizes = dpu.get_attr("reg_id_to_size")
    assert lines[4:8] == [f"{i} {name} {sizes[f'REG_{i}']}" for i, name in enumerate(types)]
    assert lines[8:] == [f"output {' '.join(map(str, array.ravel()))}" for array in expected]
    for what, message in {
        "device": "there is no device 1, only device 0",
        "kernel": f"has no DPU subgraph nothing; there are: {dpu.get_name()}",
        "register": 'there is no compute unit 0 of "DPU": the simulated device has none',
        "other kernel": "there is no kernel pp_pipeline_accel: beside the DPU",
        "small": "but its buffer object has 8",
        "none": "is given no buffer object",
        "part": "a buffer object of 8 bytes has no 8 at 1",
    }.items():
        done = run(program, model, dpu.get_name(), "-", what, check=False)
        assert (done.returncode, message in done.stderr) == (3, True), (what, done.stderr)


def test_memory_from_xrt_in_c(prefix, model, values, tmp_path):
    program = built(prefix, tmp_path, "xrt_c")
    values.tofile(tmp_path / "in.bin")
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(model))
    done = run(program, model, dpu.get_name(), tmp_path / "in.bin", OPENDPU_DEVICE="ref")
    lines = done.stdout.splitlines()
    with Runner(dpu, device="iss") as runner:
        expected = list(runner.run([values]).values())
        (taken,) = runner.get_input_tensors()
    size = dpu.get_attr("reg_id_to_size")["REG_2"]
    assert lines[:2] == ["1", f"{size} 1 1"]
    for line, array in zip(lines[2:4], expected, strict=True):
        np.testing.assert_array_equal([int(word) for word in line.split()], array.ravel())
    assert lines[4:6] == ["0 0 34567", "0 34561234"]
    assert lines[6] == f"1 1 1 {-errno.EINVAL} {-errno.ENODEV} {-errno.ENODEV}"
    assert lines[7].endswith("but its buffer object has 8") and taken.name in lines[7]
    assert lines[8].startswith("there is no buffer object ")
    reals = np.exp(np.array([[4, 8, 0], [127, 127, -128]]) / 4)
    expected = reals / reals.sum(1, keepdims=True)
    flag, *numbers = lines[9].split()
    assert flag == "0"
    np.testing.assert_allclose(np.float64(numbers), expected.ravel(), rtol=1e-4)
    for message in (
        "xclOpen: there is no device 1, only device 0",
        "xclAllocBO: the handle of the device is null",
        "xclMapBO: there is no buffer object 4711",
        "xclSyncBO: a buffer object of 8 bytes has no 8 at 1",
        "xclIPName2Index: pp: beside the DPU, which VART runs, the simulated device has no kernels",
    ):
        assert message in done.stderr


def test_xrt_header_is_c(prefix, tmp_path):
    source = tmp_path / "in_c.c"
    source.write_text("#include <xrt.h>\nint main(void) { return xclProbe() != 1; }\n")
    program = tmp_path / "in_c"
    run(
        opendpu.cpp.compiler(), "-x", "c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic",
        f"-I{prefix / 'include'}", "-o", program, source, f"-L{prefix / 'lib'}",
        f"-Wl,-rpath,{prefix / 'lib'}", "-lxrt_core",
    )  # fmt: skip
    run(program)
