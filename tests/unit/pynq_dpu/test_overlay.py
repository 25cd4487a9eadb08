# SPDX-License-Identifier: Apache-2.0
"""Programs of boards with PYNQ, on a graph that copies."""

import numpy as np
import pytest

import vart
import xir
from opendpu_arch.errors import ModelFormatError, UnsupportedError
from pynq_dpu import DpuOverlay


@pytest.fixture
def model(copy_graph, tmp_path, monkeypatch):
    """Return a compiled model in the folder of the bitstream, which is not there."""
    monkeypatch.setenv("OPENDPU_DEVICE", "iss")
    path = tmp_path / "copy.xmodel"
    copy_graph.serialize(path)
    return path


def test_the_flow_of_notebooks(model, image):
    overlay = DpuOverlay(str(model.with_name("dpu.bit")))
    assert (overlay.graph, overlay.runner) == (None, None)
    overlay.set_runtime("vart")
    overlay.load_model(model.name)
    dpu = overlay.runner
    assert isinstance(dpu, vart.Runner)
    assert isinstance(overlay.graph, xir.Graph)
    inputs, outputs = dpu.get_input_tensors(), dpu.get_output_tensors()
    given = [np.empty(tuple(inputs[0].dims), dtype=np.float32, order="C")]
    found = [np.empty(tuple(outputs[0].dims), dtype=np.float32, order="C")]
    given[0][0, ...] = image[0] / np.float32(4)
    dpu.wait(dpu.execute_async(given, found))
    np.testing.assert_array_equal(found[0], given[0])


def test_another_model_takes_the_place_of_the_first(model, monkeypatch):
    monkeypatch.chdir(model.parent)
    overlay = DpuOverlay("dpu.bit", download=False)
    overlay.download()
    overlay.load_model("copy.xmodel")
    first = overlay.runner
    overlay.load_model(model)
    assert overlay.runner is not first
    assert overlay.is_loaded() and overlay.ip_dict == {}
    overlay.free()
    assert (overlay.graph, overlay.runner) == (None, None)


def test_what_is_no_model_for_it(model, copy_graph):
    overlay = DpuOverlay("dpu.bit")
    with pytest.raises(ModelFormatError, match=r"missing\.xmodel"):
        overlay.load_model("missing.xmodel")
    for child in copy_graph.get_root_subgraph().toposort_child_subgraph():
        child.set_attr("device", "CPU")
    copy_graph.serialize(model)
    with pytest.raises(ModelFormatError, match=r"copy\.xmodel: 0 subgraphs for the DPU, but an"):
        overlay.load_model(model)
    with pytest.raises(UnsupportedError, match="runtime is 'dnndk', but must be 'vart'"):
        overlay.set_runtime("dnndk")
    assert overlay.runner is None


def test_programs_for_dpu_pynq_1_2(model, image):
    overlay = DpuOverlay("dpu.bit")
    overlay.set_runtime("vart")
    overlay.load_model(model)
    dpu = overlay.runner
    (source,), (result,) = dpu.get_input_tensors(), dpu.get_output_tensors()
    assert (source.ndims, result.ndims) == (4, 4)
    given = np.concatenate([image, image[:, ::-1]]).astype(np.float32) / 4
    found = np.empty((2, *result.dims[1:]), np.float32)
    dpu.wait(dpu.execute_async([given], [found]))
    np.testing.assert_array_equal(found, given)
