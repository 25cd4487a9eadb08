# SPDX-License-Identifier: Apache-2.0
"""A user's file that ends, in one way or another, before it gives a network."""

import sys

import pytest

from opendpu.optimize.user_model import load_module
from opendpu_arch.errors import ModelFormatError


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise ValueError('no')", "ValueError: no"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("exit()", "SystemExit: None"),
    ],
)
def test_a_file_that_ends(text, reason, tmp_path):
    path = tmp_path / "ending.py"
    path.write_text(text)
    before = list(sys.path)
    with pytest.raises(ModelFormatError, match=f"ending.py cannot be run: {reason}"):
        load_module(f"{path}:net")
    assert sys.path == before
    assert "ending" not in sys.modules
