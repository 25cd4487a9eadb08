# SPDX-License-Identifier: Apache-2.0
"""Programs for Vitis AI 1.0 to 1.2, whose runners have a module of their own."""

import json
import pathlib
import shutil

import numpy as np
import pytest

import runner
import xir.graph
import xir.subgraph
from opendpu_arch.errors import ModelFormatError, TensorError, UnsupportedError


def test_a_program_for_vitis_ai_1_2(models):
    path = pathlib.Path(models / "amd_compiled" / "tf2_custom_op.xmodel")
    graph = xir.graph.Graph.deserialize(path)
    children = graph.get_root_subgraph().children
    assert all(isinstance(child, xir.subgraph.Subgraph) for child in children)
    found = [child for child in children if child.metadata.get_attr_str("device") == "DPU"]
    dpu = runner.Runner(found[0], "run")
    assert dpu.get_tensor_format() == dpu.TensorFormat.NHWC
    given = [np.zeros(tensor.dims, np.float32) for tensor in dpu.get_input_tensors()]
    results = [np.full(tensor.dims, np.nan, np.float32) for tensor in dpu.get_output_tensors()]
    dpu.wait(dpu.execute_async(given, results))
    assert all(np.isfinite(result).all() for result in results)


@pytest.fixture
def folder(copy_graph, tmp_path):
    """A folder as ``vai_c_xir`` makes it, of a model that gives what it is given."""
    copy_graph.serialize(tmp_path / "net.xmodel")
    (tmp_path / "meta.json").write_text(json.dumps({"filename": "net.xmodel"}))
    return tmp_path


def batch(dpu, count):
    """Return random multiples of the scale for ``count`` samples, and arrays for the results."""
    (source,), (result,) = dpu.get_input_tensors(), dpu.get_output_tensors()
    given = np.random.default_rng(5).integers(-9, 9, (count, *source.dims[1:])) / 4
    return given.astype(np.float32), np.full((count, int(np.prod(result.dims[1:]))), 99, np.float32)


def test_a_folder_is_a_list_of_runners_and_the_one_that_it_holds(folder):
    runners = runner.Runner(str(folder), device="iss")
    assert len(runners) == len(list(runners)) == 1
    first = runners[0]
    assert first.get_tensor_format() == first.TensorFormat.NHWC
    for dpu in (runners, first):
        given, result = batch(dpu, 1)
        dpu.wait(dpu.execute_async([given], [result.reshape(given.shape)]))
        np.testing.assert_array_equal(result.ravel(), given.ravel())
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        runners.nothing  # noqa: B018


def test_all_samples_of_a_batch_are_computed(folder):
    dpu = runner.Runner(folder, device="iss")
    given, result = batch(dpu, 5)
    assert dpu.wait(dpu.execute_async([given], [result])) == 0
    np.testing.assert_array_equal(result.ravel(), given.ravel())
    with pytest.raises(TensorError, match=r"output 0 is shape \(3, 4\), but .* 5 samples"):
        dpu.execute_async([given], [np.empty((3, 4), np.float32)])
    with pytest.raises(TensorError, match=r"input 0 is shape .* in C order"):
        dpu.execute_async([np.asfortranarray(given)], [result])


def test_of_several_runners_one_is_chosen(models, tmp_path):
    shutil.copy(models / "amd_compiled" / "tf2_custom_op.xmodel", tmp_path)
    (tmp_path / "meta.json").write_text('{"filename": "tf2_custom_op.xmodel"}')
    runners = runner.Runner(tmp_path, device="ref")
    (first, second) = (dpu.get_output_tensors() for dpu in runners)
    assert [tensor.dims for tensor in (*first, *second)] == [[1, 2, 2, 64], [1, 1, 1, 10]]
    assert (second[0].ndims, second[0].get_attr("fix_point")) == (4, 7)
    with pytest.raises(AttributeError, match="2 runners have no attribute 'wait'; choose one"):
        runners.wait(1)


@pytest.mark.parametrize(
    ("told", "error", "text"),
    [
        (None, ModelFormatError, r"meta\.json: No such file"),
        ("{", ModelFormatError, "no description of a model: Expecting"),
        ("[" * 100000, ModelFormatError, "no description of a model"),
        ("[]", ModelFormatError, "names no 'filename'"),
        ('{"lib": "x.so"}', ModelFormatError, "names no 'filename'"),
        ('{"filename": "../net.xmodel"}', ModelFormatError, "must be that of a file beside it"),
        ('{"filename": ".."}', ModelFormatError, r"\.\."),
        ('{"filename": 3}', ModelFormatError, "filename is 3"),
        ('{"filename": "dpu_net.elf"}', UnsupportedError, "DNNDK's compiler; compile"),
        ('{"filename": "none.xmodel"}', ModelFormatError, r"none\.xmodel"),
    ],
)
def test_folders_that_hold_no_model(tmp_path, told, error, text):
    if told is not None:
        (tmp_path / "meta.json").write_text(told)
    with pytest.raises(error, match=text):
        runner.Runner(tmp_path)
