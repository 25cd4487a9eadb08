# SPDX-License-Identifier: Apache-2.0
"""Lets tests import the networks beside them; a random seed that the output shows."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))


@pytest.fixture
def seed(rng):
    """Seed PyTorch at random; the test's output says with what."""
    import torch

    found = int(rng.integers(1 << 31))
    torch.manual_seed(found)
    return found
