# SPDX-License-Identifier: Apache-2.0
"""Element types: their names and numpy equivalents."""

import numpy as np
import pytest

from opendpu_arch.errors import GraphError
from xir import DataKind, DataType


@pytest.mark.parametrize(
    ("text", "kind", "bits", "dtype"),
    [
        ("XINT8", DataKind.XINT, 8, "int8"),
        ("xuint8", DataKind.XUINT, 8, "uint8"),
        ("float32", DataKind.FLOAT, 32, "float32"),
        ("INT64", DataKind.INT, 64, "int64"),
    ],
)
def test_names(text, kind, bits, dtype):
    parsed = DataType(text)
    assert parsed == DataType(kind, bits)
    assert parsed.to_string() == text.upper()
    assert (str(parsed), repr(parsed)) == (f"'{text.lower()}'", f"<xir.DataType '{text.lower()}'>")
    assert (parsed.type, parsed.bit_width) == (kind, bits)
    assert {parsed: 1}[DataType(text)] == 1
    assert parsed.numpy() == np.dtype(dtype)


@pytest.mark.parametrize("text", ["", "int", "8", "foo8", "int0", "int8x"])
def test_bad_names(text):
    with pytest.raises(GraphError, match=f"data type is '{text}', but must be one of INT, UINT"):
        DataType(text)


@pytest.mark.parametrize("text", ["xint4", "bfloat16", "unknown32", "float8"])
def test_types_without_numpy(text):
    with pytest.raises(GraphError, match=f"data type {text.upper()} has no numpy dtype"):
        DataType(text).numpy()


def test_type_of_an_array():
    assert DataType.of(np.zeros(1, np.float32)).to_string() == "FLOAT32"
    assert DataType.of(np.zeros(1, np.int8)).to_string() == "INT8"
    with pytest.raises(GraphError, match="array has dtype complex128"):
        DataType.of(np.zeros(1, complex))
