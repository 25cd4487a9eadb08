# SPDX-License-Identifier: Apache-2.0
"""VART in C++: programs shaped as AMD's examples, and custom ops, against Python's results."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import opendpu.cpp
import xir
from opendpu.cpp import build, packages
from opendpu.runtime import GraphRunner, Runner, cpu
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch.errors import ToolError, UnsupportedError
from opendpu_arch.target import Target

sys.path.append(str(pathlib.Path(__file__).parent))

from cpp_vart import SOURCES, built, run

pytestmark = pytest.mark.system


@pytest.mark.parametrize("threads", [1, 4])
def test_threads_with_buffers_of_their_own(prefix, model, values, tmp_path, threads):
    program = built(prefix, tmp_path, "threads")
    values.tofile(tmp_path / "in.bin")
    done = run(program, model, tmp_path / "in.bin", tmp_path, threads)
    assert done.stdout == "done\n"
    assert done.stderr.startswith("create running for subgraph: ")
    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(model))
    with Runner(dpu, device="iss") as runner:
        expected = list(runner.run([values]).values())
        points = [t.get_attr("fix_point") for t in runner.get_output_tensors()]
    assert len(expected) == 2
    for thread in range(threads):
        for i, (wanted, point) in enumerate(zip(expected, points, strict=True)):
            ints = np.fromfile(tmp_path / f"{thread}.int8.{i}.bin", np.int8)
            np.testing.assert_array_equal(ints, wanted.ravel())
            floats = np.fromfile(tmp_path / f"{thread}.float.{i}.bin", np.float32)
            np.testing.assert_array_equal(floats, np.ldexp(np.float32(wanted.ravel()), -point))


def test_a_program_in_c(prefix, model, values, tmp_path):
    program = tmp_path / "plain"
    run(
        opendpu.cpp.compiler(), "-x", "c", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
        f"-I{prefix / 'include'}", SOURCES / "plain.c", "-o", program, f"-L{prefix / 'lib'}",
        f"-Wl,-rpath,{prefix / 'lib'}", "-lvart-runner", "-lxir",
    )  # fmt: skip
    values.tofile(tmp_path / "in.bin")
    graph = xir.Graph.deserialize(model)
    (dpu,) = dpu_subgraphs(graph)
    done = run(program, model, tmp_path / "in.bin", tmp_path / "out.bin", OPENDPU_DEVICE="ref")

    def told(what, tensor):
        sizes = " ".join(map(str, tensor.dims))
        count, point = tensor.get_element_num(), tensor.get_attr("fix_point")
        return f"{what} {tensor.name} 8 2 {sizes} = {count} {count} point 1 {point}"

    with Runner(dpu, device="ref") as runner:
        expected = np.concatenate([each.ravel() for each in runner.run([values]).values()])
        (taken,), given = runner.get_input_tensors(), runner.get_output_tensors()
    assert done.stdout.splitlines() == [
        f"{graph.get_name()} {dpu.get_name()} 1 2 1 1",
        "1 1",
        told("in", taken),
        "wait 0",
        *(told("out", tensor) for tensor in given),
    ]
    np.testing.assert_array_equal(np.fromfile(tmp_path / "out.bin", np.int8), expected)
    failed = run(program, tmp_path / "none.xmodel", "", "", check=False)
    assert failed.returncode < 0  # by a signal
    assert "none.xmodel: cannot be read" in failed.stderr


def test_buffers_of_runners(prefix, model, values, tmp_path):
    program = built(prefix, tmp_path, "buffers")
    values.tofile(tmp_path / "in.bin")
    lines = run(program, model, tmp_path / "in.bin", OPENDPU_DEVICE="ref").stdout.splitlines()
    graph = xir.Graph.deserialize(model)
    (dpu,) = dpu_subgraphs(graph)
    with Runner(dpu, device="iss") as runner:
        first = next(iter(runner.run([values]).values())).ravel()
        tensors = runner.get_output_tensors()[0], runner.get_input_tensors()[0]
        points = [tensor.get_attr("fix_point") for tensor in tensors]
    with GraphRunner(graph, device="iss") as whole:
        found = whole.run([values])
        results = [  # as AMD's graph runner has them, which ends with real numbers
            array.ravel() / np.float32(2 ** t.get_attr("fix_point"))
            if (array := found[t.name]).dtype == np.int8
            else array.ravel()
            for t in whole.get_output_tensors()
        ]
    assert lines[0] == lines[2] == " ".join(map(str, first))
    np.testing.assert_array_equal(np.float32(lines[1].split()), first / np.float32(2 ** points[0]))
    assert [float(word) for word in lines[3].split()] == [2.0 ** -points[0], 2.0 ** points[1]]
    assert len(lines) == 5 + len(results) == 7
    assert lines[-1] == lines[0]
    for line, result in zip(lines[4:-1], results, strict=True):
        np.testing.assert_allclose(np.float32(line.split()), result, rtol=1e-4)


def seen(graph: xir.Graph) -> list[str]:
    """Return the lines that surface.cpp prints of a graph."""
    heads, tails = graph.get_head_ops(), graph.get_tail_ops()
    lines = [f"graph {graph.get_name()} {graph.get_op_num()} {len(heads)} {len(tails)}"]
    for op in graph.toposort():
        tensor = op.get_output_tensor()
        inputs = [
            ",".join([f"{arg}={len(ops)}", *(o.get_name() for o in ops)])
            for arg, ops in op.get_input_ops().items()
        ]
        words = [
            "op", op.get_name(), op.get_type(), tensor.data_type.to_string(), *tensor.dims,
            tensor.get_data_size(), op.get_fanout_num(), *inputs,
        ]  # fmt: skip
        lines.append(" ".join(map(str, words)))

    def subgraph(node: xir.Subgraph) -> None:
        words = [
            "subgraph", node.get_name(), node.depth, node.get_op_num(), node.get_children_num(),
            *(f"<{tensor.name}" for tensor in node.get_sorted_input_tensors()),
            *(f">{tensor.name}" for tensor in node.get_sorted_output_tensors()),
        ]  # fmt: skip
        lines.append(" ".join(map(str, words)))
        for child in node.toposort_child_subgraph():
            subgraph(child)

    subgraph(graph.get_root_subgraph())
    return lines


REFUSED = {
    "file": "ModelFormatError: [XIR_FILE_NOT_EXIST] ",
    "bytes": "ModelFormatError: [XIR_READ_PB_FAILURE] not an .xmodel, or truncated",
    "attribute": "there is no attribute nothing; there are {",
    "type": "bad any_cast",
    "input": "has no input 99 of argument input",
    "data type": "data type is int, but must be a name such as XINT8 or FLOAT32",
    "device": "UnsupportedError: subgraph ",
    "mode": "UnsupportedError: [VART_FUNC_NOT_SUPPORT] runner mode is 'walk'",
    "no subgraph": "a runner needs a subgraph, but there is none",
    "buffers": "TensorError: [VART_TENSOR_INFO_ERROR] 0 buffers given, but must be 1: ",
    "size": "TensorError: [VART_TENSOR_BUFFER_DIMS_ERROR] input ",
    "index": "has no element there",
    "more indices": "tensor small has 2 dimensions, not 3",
    "copy": "tensor small has 1 bytes from there on, not 2 at 0",
}


def test_graphs_are_those_of_python(prefix, model, tmp_path):
    program = built(prefix, tmp_path, "surface")
    done = run(program, model, tmp_path / "copy.xmodel")
    lines, expected = done.stdout.splitlines(), seen(xir.Graph.deserialize(model))
    assert lines[: len(expected)] == expected
    rest = lines[len(expected) :]
    assert rest[:4] == ["-5t21x010", "0", "1", "ad)(e 8"]
    for line, (what, message) in zip(rest[4:-1], REFUSED.items(), strict=True):
        assert line.startswith(f"{what}: ")
        assert message in line
    assert rest[-1] == "wait -1"
    assert "job 77 is unknown" in done.stderr


NOTHING = {
    "input": "a buffer of a job is a null pointer",
    "output": "a buffer of a job is a null pointer",
    "tensor of an input": "the tensor of a job's buffer is a null pointer",
    "memory of an input": "the buffer of tensor .* has no memory",
    "copied from": "a buffer to copy is a null pointer",
    "copied to": "a buffer to copy to is a null pointer",
    "memory copied": "the buffer of tensor x has no memory",
    "tensor copied": "its tensor is a null pointer",
    "from host": "what is copied from the host is a null pointer",
    "to host": "what is copied to the host is a null pointer",
    "offset": r"tensor .* has 90 bytes from there on, not 10 at 18446744073709551611",
    "op": "the op to remove is a null pointer",
    "another graph's op": "op y to remove is not in graph two",
    "clone": "the tensor to clone is a null pointer",
    "buffer's tensor": "the tensor of a buffer is a null pointer",
    "graph": "a graph runner needs a graph, but there is none",
    "subgraph": "the subgraph is a null pointer",
    "large": "tensor .* has more than 2147483647 elements or bytes",
    "file": "ModelFormatError: .* cannot be read: No such file or directory",
    "read": "what a buffer object reads or writes is a null pointer",
    "write": "what a buffer object reads or writes is a null pointer",
    "xclWriteBO": "-22",
    "xclAllocBO": "1",
    "input scale": "vart::get_input_scale: the tensor is null",
    "output scale": "vart::get_output_scale: the tensor is null",
    "input scales": "vart::get_input_scale: the tensor is null",
}
"""What the program says of null pointers, and of sizes that do not fit."""


def test_null_pointers_and_sizes_that_do_not_fit(prefix, model, tmp_path):
    program = built(prefix, tmp_path, "nothing")
    done = subprocess.run(
        [program, model], capture_output=True, check=True, timeout=300,
        env={**os.environ, "OPENDPU_DEVICE": "ref"},
    )  # fmt: skip
    lines = done.stdout.decode(errors="surrogateescape").splitlines()
    found = dict(line.split(": ", 1) for line in lines)
    closed = "the handle is of no device that is open"
    said = done.stderr.decode(errors="surrogateescape").splitlines()
    assert said[-2:] == [f"xclClose: {closed}", f"xclAllocBO: {closed}"]
    assert found.keys() == NOTHING.keys()
    for name, message in NOTHING.items():
        assert re.fullmatch(message, found[name]), (name, found[name])


def test_graphs_can_be_made_and_changed(prefix, tmp_path):
    program = built(prefix, tmp_path, "edits")
    lines = run(program, tmp_path / "made.xmodel").stdout.splitlines()
    assert lines[:2] == ["made 0", "{name: both, type: FLOAT32, shape: {1, 8, 6, 7}} 2"]
    refused = {
        "taken": "op 'last_w' (const): the name is empty or already in graph 'made'",
        "missing": "GraphError: ",
        "null": "an input is no op, but a null pointer",
        "used": "cannot be removed: used by last",
        "leaf": "GraphError: ",
    }
    for line, (what, message) in zip(lines[2:7], refused.items(), strict=True):
        assert line.startswith(f"{what}: ") and message in line
    assert lines[7:] == [
        "10 of 10", "front 7 4 front 0",
        "{name: renamed, type: FLOAT32, shape: {1, 8, 6, 7}} relu 3 1 1",
    ]  # fmt: skip
    graph = xir.Graph.deserialize(tmp_path / "made.xmodel")
    assert [op.get_name() for op in graph.get_op("last").get_input_ops_list()] == [
        "relu", "other_w",
    ]  # fmt: skip
    assert graph.get_op("data").get_attr("note") == 1 << 63
    assert graph.get_op("data").get_attr_kind("note") == "uint64"
    tensor = graph.get_op("last").get_output_tensor()
    assert (tensor.name, tensor.dims, tensor.get_attr("mark")) == ("renamed", [1, 8, 6, 7], 3)
    front = graph.get_root_subgraph().find_child_subgraph_by_op_name("third")
    assert (front.get_name(), front.get_attr("device"), front.get_op_num()) == ("front", "DPU", 7)


def test_targets_of_fingerprints(prefix, model, tmp_path):
    lines = run(built(prefix, tmp_path, "targets"), model, "b4096").stdout.splitlines()
    for line, name in (lines[0], "B512"), (lines[2], "B4096"):
        target = Target.from_name(name)
        assert line == f"{target.name} DPUCZDX8G 1 {target.feature_code}"
    assert lines[1] == "1 1"
    assert lines[3] == "10"
    assert lines[4].startswith("TargetError: ") and "DPUCAHX8H" in lines[4]
    assert lines[5].startswith("TargetError: ") and "0x301000000000000" in lines[5]
    assert lines[6].endswith("targets here are of the type DPUCZDX8G, not DPUCVDX8G")


@pytest.fixture
def unregistered():
    yield
    for kind in ("Mylayer", "inner-product", "Plain"):
        cpu.unregister(kind)


def test_an_op_of_several_arguments(prefix, tmp_path, unregistered):
    library = built(prefix, tmp_path, "ops-product", "-shared", "-fPIC", "-DPRODUCT")
    cpu.register_library("inner-product", library)
    for bias in (False, True):
        graph = xir.Graph("g")
        x = graph.create_op("x", "data", {"shape": [1, 2], "data_type": "FLOAT32"})
        inputs = {"input": [x], "weights": [graph.create_const_op("w", np.float32([[1, 2]]))]}
        if bias:
            inputs["bias"] = [graph.create_const_op("b", np.float32([0.5]))]
        graph.create_op("y", "inner-product", {"axis": 1}, inputs)
        with GraphRunner(graph) as runner:
            for first in (3, 4):
                result = runner.run([np.float32([[first, 4]])])["y"]
                assert result.tolist() == [[100 + first + 8 + bias / 2]]
            with pytest.raises(UnsupportedError, match="its calculate returned 3"):
                runner.run([np.float32([[-500, 0]])])


def test_an_op_without_types(prefix, tmp_path, unregistered):
    library = built(prefix, tmp_path, "ops-plain", "-shared", "-fPIC", "-DPLAIN")
    cpu.register_library("Plain", library)
    for name, size, message in (
        ("good", 2, None),
        ("refused", 2, "not this op"),
        ("long", 3, "another size"),
    ):
        graph = xir.Graph("g")
        x = graph.create_op("x", "data", {"shape": [1, size], "data_type": "FLOAT32"})
        attrs = {"shape": [1, 1], "data_type": "FLOAT32"}
        graph.create_op(name, "Plain", attrs, {"input": [x]})
        with GraphRunner(graph) as runner:
            values = np.arange(size, dtype=np.float32).reshape(1, size)
            if message is None:
                assert runner.run([values])[name].tolist() == [[1]]
                continue
            with pytest.raises(UnsupportedError, match=message):
                runner.run([values])


def test_libraries_that_are_no_custom_op(tmp_path):
    with pytest.raises(ToolError, match="cannot be loaded"):
        cpu.register_library("Some", tmp_path / "missing.so")
    with pytest.raises(ToolError, match="is no custom op, or was not linked with -lvart-runner"):
        cpu.register_library("Some", "libc.so.6")


def test_amds_model_with_a_custom_op(prefix, models, tmp_path, rng, unregistered):
    """The library is found by its name, from a C++ program; Python gets the same results."""
    library = built(prefix, tmp_path, "ops-prelu", "-shared", "-fPIC", "-DPRELU")
    shutil.copy(library, tmp_path / "libvart_op_imp_Mylayer.so")
    program = built(prefix, tmp_path, "buffers")
    model = models / "amd_compiled" / "tf2_custom_op.xmodel"
    image = rng.integers(0, 128, (1, 28, 28, 1)).astype(np.int8)
    image.tofile(tmp_path / "in.bin")
    graph = xir.Graph.deserialize(model)
    cpu.register_library("Mylayer", tmp_path / "libvart_op_imp_Mylayer.so")
    with GraphRunner(graph) as runner:
        ours = next(iter(runner.run([image]).values()))

    @cpu.register("Mylayer")
    def prelu(op, inputs):
        return np.where(inputs[0] >= 0, inputs[0], inputs[0] * inputs[1])

    with GraphRunner(graph) as runner:
        np.testing.assert_array_equal(ours, next(iter(runner.run([image]).values())))
    done = run(program, model, tmp_path / "in.bin", LD_LIBRARY_PATH=str(tmp_path))
    found = np.float32(done.stdout.splitlines()[-2].split())
    np.testing.assert_array_equal(found, ours.ravel())


def test_settings_and_times(tmp_path):
    """Headers that programs for boards bring their own settings with."""
    try:
        compiler = opendpu.cpp.compiler()
    except ToolError as error:
        pytest.skip(str(error))
    program = tmp_path / "settings"
    run(
        compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{build.INCLUDE}", "-o", program,
        SOURCES / "settings.cpp",
    )  # fmt: skip
    done = run(program)
    assert (done.stdout, done.stderr) == ("4|0.5|two words|1|20", "")
    done = run(program, "threads")
    assert done.stdout == f"failed 3 {sum(range(1, 101)) + 7} 1 a thread pool needs a thread"
    done = run(program, "places")
    assert done.stdout == "111 17 19|9+3 16+4 32+4 40+4 48+4 "
    assert run(program, "shared").stdout == "1345"
    done = run(program, "steps", SLEEP_MS="20")
    assert re.fullmatch(r"FPS= \S+ number_of_frames= \d+ time= 0.0\d+ seconds\.\n", done.stdout)
    assert run(program, "steps", "3", check=False).stdout == "step 1"
    done = run(
        program, SAMPLE_LOOPS="-2", SAMPLE_SCALE="1e3", SAMPLE_FOLDER="", SAMPLE_SIZES="7",
        DEEPHI_PROFILING="1",
    )  # fmt: skip
    assert done.stdout == "-1|1000||7"
    assert re.fullmatch(r"inside : \d+us\neverything : \d+us\n", done.stderr)
    done = run(program, check=False, SAMPLE_LOOPS="two")
    assert done.returncode != 0
    assert "environment variable SAMPLE_LOOPS is 'two', which is no number" in done.stderr


def test_an_installation_has_what_this_version_has(monkeypatch):
    """Not what an earlier version left in the cache."""
    names = {"vart-runner", "vart-dpu-controller", "vart-buffer-object", "vart-runner-assistant"}
    assert names < set(packages.AMDS_LIBRARIES)
    monkeypatch.setattr(build.cache, "entry", lambda kind, name, make: pathlib.Path(name))
    before = build.prefix()
    assert build.prefix() == before
    monkeypatch.setattr(packages, "AMDS_LIBRARIES", (*packages.AMDS_LIBRARIES, "vart-later"))
    assert packages.files()["lib/libvart-later.so"] == "INPUT(-lopendpu-vart)\n"
    assert build.prefix() != before


def test_build_tools_find_the_library(prefix, model, tmp_path):
    installed = tmp_path / "installed"
    files = opendpu.cpp.install(installed)
    assert installed / "lib" / "libopendpu-vart.so" in files
    assert installed / "include" / "vart" / "op_imp.h" in files
    assert all(path.is_file() for path in files)
    for tool in ("pkg-config", "cmake"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    for name in ("opendpu-vart", "vart", "xir"):
        flags = run(
            "pkg-config", "--cflags", "--libs", name, PKG_CONFIG_PATH=f"{installed}/lib/pkgconfig"
        ).stdout.split()
        assert pathlib.Path(flags[1].removeprefix("-I")).resolve() == installed / "include"
        assert flags[-1] == "-lopendpu-vart"
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.12)\nproject(sample CXX)\n"
        "find_package(xir REQUIRED)\nfind_package(vart REQUIRED COMPONENTS runner util)\n"
        "find_package(vitis_ai_library REQUIRED COMPONENTS graph_runner)\n"
        f'add_executable(surface "{SOURCES}/surface.cpp")\n'
        "target_link_libraries(surface xir::xir vart::runner vitis_ai_library::graph_runner)\n"
    )
    build = tmp_path / "build"
    run("cmake", "-S", tmp_path, "-B", build, f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", build)
    done = run(build / "surface", model, tmp_path / "copy.xmodel")
    assert done.stdout.splitlines()[-1] == "wait -1"
