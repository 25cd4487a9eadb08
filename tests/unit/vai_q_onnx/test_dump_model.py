# SPDX-License-Identifier: Apache-2.0
"""Golden results: the files of the guide, with the program's numbers."""

import numpy as np
import onnx
import pytest
from export_nets import images, network, on_simulator

import vai_q_onnx
from opendpu.frontend import load_onnx
from opendpu.quantize import complete
from opendpu_arch.errors import OutputError, UnsupportedError


class Reader(vai_q_onnx.CalibrationDataReader):
    """Gives single images."""

    def __init__(self, count: int, size: int = 1) -> None:
        self.batches = iter([{"image": images(size, seed)} for seed in range(count)])

    def get_next(self):
        return next(self.batches, None)


@pytest.fixture
def quantized(tmp_path):
    onnx.save(network("average"), tmp_path / "model.onnx")
    path = tmp_path / "q.onnx"
    vai_q_onnx.quantize_static(tmp_path / "model.onnx", path, Reader(16))
    return path


def read(path):
    integers = np.fromfile(path, np.int8)
    assert integers.tolist() == [
        int(line) for line in path.with_suffix(".txt").read_text().splitlines()
    ]
    return integers


def test_what_is_dumped_is_what_the_program_computes(quantized, tmp_path):
    folder = tmp_path / "dump"
    vai_q_onnx.dump_model(quantized, Reader(2), output_dir=str(folder))
    names = {file.name for file in folder.glob("*.bin")}
    assert names == {
        f"quant_{name}.bin"
        for name in ("image", "r", "p", "y", "c_weights", "c_bias", "y_weights", "y_bias")
    }
    graph = complete(load_onnx(quantized))
    unit = 2.0 ** -graph[graph.outputs[0]].fix_point
    for seed, place in enumerate((folder, folder / "dump_results_1")):
        wanted = on_simulator(graph, images(1, seed))[0].transpose(1, 2, 0) / unit
        np.testing.assert_array_equal(read(place / "quant_y.bin"), wanted.ravel())
    model = onnx.load(quantized)
    (weights,) = (t for t in model.graph.initializer if t.dims == [8, 4, 3, 3])
    stored = read(folder / "quant_c_weights.bin").reshape(8, 3, 3, 4).transpose(0, 3, 1, 2)
    real = onnx.numpy_helper.to_array(weights)
    (factor,) = {float(f) for f in (real[stored != 0] / stored[stored != 0]).ravel()}
    np.testing.assert_array_equal(stored * factor, real)


def test_real_numbers_too(quantized, tmp_path):
    folder = tmp_path / "dump"
    vai_q_onnx.dump_model(quantized, output_dir=folder, dump_float=True)
    real = np.fromfile(folder / "quant_y_float.bin", np.float32)
    graph = complete(load_onnx(quantized))
    unit = 2.0 ** -graph[graph.outputs[0]].fix_point
    np.testing.assert_array_equal(real, read(folder / "quant_y.bin") * np.float32(unit))
    lines = (folder / "quant_y_float.txt").read_text().splitlines()
    assert [float(line) for line in lines] == real.tolist()


def test_what_is_refused(quantized, tmp_path):
    with pytest.raises(UnsupportedError, match="'average' is not quantized"):
        vai_q_onnx.dump_model(tmp_path / "model.onnx", Reader(1), tmp_path / "dump")
    with pytest.raises(UnsupportedError, match="batch 0 of the dump_data_reader has 2 samples"):
        vai_q_onnx.dump_model(quantized, Reader(1, 2), tmp_path / "dump")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="is no folder"):
        vai_q_onnx.dump_model(quantized, Reader(1), tmp_path / "file")
