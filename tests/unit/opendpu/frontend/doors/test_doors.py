# SPDX-License-Identifier: Apache-2.0
"""One network through the doors of every framework: the same program, the same results."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent))

from programs import LIVE, through
from small_network import FILES, Weights

from opendpu.onnxruntime.library import compiler

OTHERS = [door for door in (*FILES, *LIVE) if door != "ONNX"]


@pytest.mark.parametrize("door", OTHERS)
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_every_door_leads_to_the_same_program(door, tmp_path, rng, monkeypatch):
    if door == "ONNX Runtime" and compiler() is None:
        pytest.skip("the provider's library needs a C compiler")
    monkeypatch.setenv("OPENDPU_CACHE", str(tmp_path / "cache"))
    own = Weights()
    images = rng.standard_normal((30, *own.size[1:])).astype(np.float32)
    found = through(door, tmp_path, own, images, "B512")
    wanted = through("ONNX", tmp_path, own, images, "B512")
    assert found.code == wanted.code
    assert len(found.code) > 100
    np.testing.assert_array_equal(found.results, wanted.results)
    assert len(np.unique(found.results)) > 10
