# SPDX-License-Identifier: Apache-2.0
"""Samples that stay in files: the same numbers, and no more memory for more samples."""

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from opendpu.quantize import quantize
from opendpu.quantize.samples import calibration_samples
from opendpu.quantize.spool import FileArray, npz_arrays, spooled
from opendpu_arch.errors import TensorError

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples


def net():
    made = Net()
    made.conv("a", "x", 4)
    return made.done("a")


def test_batches_of_an_iterator():
    data = samples(20)["x"]
    found = spooled({"x": data[i : i + 3]} for i in range(0, 20, 3))
    assert isinstance(found["x"], FileArray)
    assert (found["x"].shape, found["x"].ndim, len(found["x"])) == (data.shape, 4, 20)
    np.testing.assert_array_equal(found["x"][4:9], data[4:9])
    assert found["x"][7:7].shape == (0, 8, 8, 4)


def test_iterators_and_arrays_give_the_same_network():
    data = samples(20)["x"]
    whole, parts = (
        quantize(net(), given) for given in ({"x": data}, iter([{"x": data[:8]}, {"x": data[8:]}]))
    )
    for one, other in zip(whole, parts, strict=True):
        assert one.type == other.type
        if one.value is not None:
            np.testing.assert_array_equal(one.value, other.value)


def test_types_and_orders_of_axes_change_on_the_way():
    made = net()
    made.attrs["onnx_order"] = {"x": [0, 2, 3, 1]}
    pixels = np.random.default_rng(0).integers(0, 256, (6, 4, 8, 8)).astype(np.uint8)
    found = calibration_samples(made, iter([{"x": pixels}]))
    wanted = pixels.transpose(0, 2, 3, 1).astype(np.float32)
    np.testing.assert_array_equal(found.stacked(2, 5)["x"], wanted[2:5])
    np.testing.assert_array_equal(found.single(3)["x"], wanted[3:4])
    assert found.single(3)["x"].dtype == np.float32
    assert found.ranges["x"] == (pixels.min(), pixels.max())


def test_files_go_with_the_arrays():
    found = spooled(iter([samples(4)]))
    folder = found["x"].path.parent
    assert folder.exists()
    del found
    assert not folder.exists()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_npz_files(tmp_path, save):
    data = samples(9)["x"]
    save(tmp_path / "c.npz", x=data, turned=np.asfortranarray(data), flag=np.array([True, False]))
    found = npz_arrays(tmp_path / "c.npz")
    assert list(found) == ["x", "turned", "flag"]
    for name in ("x", "turned"):
        np.testing.assert_array_equal(found[name][0:9], data)
        np.testing.assert_array_equal(found[name][3:4], data[3:4])
    np.testing.assert_array_equal(found["flag"][0:2], [True, False])
    assert (found["x"].path == tmp_path / "c.npz") == (save is np.savez)


def test_objects_are_not_read(tmp_path):
    np.savez(tmp_path / "o.npz", x=np.array([{}, None], dtype=object))
    with pytest.raises(ValueError, match=r"x\.npy holds Python objects"):
        npz_arrays(tmp_path / "o.npz")


@pytest.mark.parametrize(
    ("batches", "text"),
    [
        ([], "the calibration data has no batches"),
        ([np.ones(3)], "batch 0 of the calibration data is a ndarray, but must be arrays by input"),
        (
            [{"x": np.ones((2, 3))}, {"y": np.ones((2, 3))}],
            "batch 1 of the calibration data has",
        ),
        ([{"x": np.ones((2, 3))}, {"x": np.ones((2, 4))}], "'x' has samples of float64 [4], but"),
        (
            [{"x": np.ones((2, 3))}, {"x": np.ones((2, 3), int)}],
            "'x' has samples of int64 [3]",
        ),
        ([{"x": np.array(["a"])}], "calibration data of 'x' has type <U1 and shape [1], but must"),
    ],
)
def test_batches_that_cannot_be(batches, text):
    with pytest.raises(TensorError) as caught:
        spooled(iter(batches))
    assert text in str(caught.value)


def test_values_that_are_not_finite_in_any_part(monkeypatch):
    monkeypatch.setattr("opendpu.quantize.samples.PART_BYTES", 4096)
    data = samples(64)["x"]
    data[50, 3, 3, 3] = np.inf
    with pytest.raises(TensorError, match="'x' is not finite everywhere; entry 50 is the first"):
        calibration_samples(net(), iter([{"x": data}]))


PROGRAM = """
import resource, sys
import numpy as np
sys.path.append({folder!r})
from float_nets import Net
from opendpu.quantize import quantize
made = Net()
made.conv("a", "x", 4)
rng = np.random.default_rng(0)
batches = ({{"x": rng.standard_normal((256, 8, 8, 4)).astype(np.float32)}} for _ in range({count}))
quantize(made.done("a"), batches)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_samples():
    """64 MB of samples more, in a process of its own."""
    if sys.platform != "linux" or not hasattr(resource, "RUSAGE_SELF"):
        pytest.skip("ru_maxrss is in KiB on Linux only")
    peaks = []
    for count in (8, 264):
        program = PROGRAM.format(folder=str(Path(__file__).parent), count=count)
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        peaks.append(int(run.stdout) // 1024)
    assert peaks[1] - peaks[0] < 32, f"peaks are {peaks} MiB"
