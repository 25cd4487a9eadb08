# SPDX-License-Identifier: Apache-2.0
"""Each test works in a folder of its own."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))  # lets tests import the helpers beside them


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make a temporary folder the current one, as results are written there by default."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def seed(rng):
    """Seed PyTorch at random; the test's output says with what."""
    import torch

    found = int(rng.integers(1 << 31))
    torch.manual_seed(found)
    return found
