# SPDX-License-Identifier: Apache-2.0
"""Files of arrays: reading, writing, and what is no such file."""

import pathlib
import zipfile

import numpy as np
import pytest

from opendpu.runtime import npz
from opendpu_arch.errors import OutputError, TensorError


def test_round_trip_with_any_tensor_name(tmp_path):
    arrays = {"a/b:0 (x)": np.arange(3, dtype=np.int8), "file": np.ones((2, 2), np.float32)}
    npz.write(tmp_path / "a.npz", arrays)
    found = npz.read(tmp_path / "a.npz")
    assert set(np.load(tmp_path / "a.npz").files) == set(arrays)
    assert set(found) == set(arrays)
    assert all((found[name] == array).all() for name, array in arrays.items())
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as .npz: "),
        (b"hello", "cannot be read as .npz: "),
        (b"PK\x03\x04" + bytes(50), "cannot be read as .npz: "),
    ],
)
def test_broken_files(tmp_path, content, message):
    path = tmp_path / "in.npz"
    path.write_bytes(content)
    with pytest.raises(TensorError, match=message):
        npz.read(path)


def test_missing_npy_and_pickled_files(tmp_path):
    with pytest.raises(TensorError, match=r"in\.npz cannot be read as \.npz: No such file"):
        npz.read(tmp_path / "in.npz")
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(TensorError, match=r"cannot be read as \.npz: File is not a zip"):
        npz.read(tmp_path / "x.npy")
    np.savez(tmp_path / "o.npz", a=np.array([object()]))
    with pytest.raises(
        TensorError, match=r"cannot be read as \.npz: Object arrays cannot be loaded"
    ):
        npz.read(tmp_path / "o.npz")
    np.savez(tmp_path / "t.npz", a=np.arange(1000))
    whole = (tmp_path / "t.npz").read_bytes()
    (tmp_path / "t.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TensorError, match=r"t\.npz cannot be read"):
        npz.read(tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{'descr': '|i1', 'fortran_order': False, 'shape': (1 << 40,), }", "malformed"),
        ("{'descr': '|i1', 'fortran_order': False, 'shape': (1099511627776,), }", "not fill its"),
        ("{'descr': '|i1', 'fortran_order': False, 'shape': (-1, -4), }", "does not fill its"),
        ("{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }", "does not fill its"),
        ("{'descr': '|i1', 'fortran_order': False, 'shape': (4,), ", "cannot be read"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (4,), }", "Object arrays cannot be"),
    ],
)
def test_a_header_is_not_believed(tmp_path, header, message):
    """What it says of a shape is held against the bytes that there are, before any memory is."""
    text = header.encode()
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(4)
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        archive.writestr("x.npy", content)
    with pytest.raises(TensorError, match=message):
        npz.read(tmp_path / "in.npz")


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3).T, np.float32(3), np.zeros((0, 2))])
def test_arrays_of_numpy_come_back(tmp_path, array):
    np.savez(tmp_path / "in.npz", x=array)
    found = npz.read(tmp_path / "in.npz")["x"]
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert (found == array).all()
    assert found.flags.writeable and found.flags.c_contiguous


def test_an_array_that_comes_twice(tmp_path):
    with zipfile.ZipFile(tmp_path / "in.npz", "w") as archive:
        for name in "x.npy", "x":
            with archive.open(name, "w") as member:
                np.save(member, np.zeros(2))
    with pytest.raises(
        TensorError, match=r"in\.npz cannot be read as \.npz: it holds array 'x' twi"
    ):
        npz.read(tmp_path / "in.npz")


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    with pytest.raises(OutputError, match=r"none/a\.npz cannot be written: No such file"):
        npz.write(tmp_path / "none" / "a.npz", {"a": np.ones(1)})

    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "replace", fail)
    with pytest.raises(OutputError, match="cannot be written: No space left"):
        npz.write(tmp_path / "a.npz", {"a": np.ones(1)})
    assert not list(tmp_path.iterdir())
