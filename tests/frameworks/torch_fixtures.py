# SPDX-License-Identifier: Apache-2.0
"""How PyTorch is set in tests."""

import pytest


@pytest.fixture
def seed(rng):
    """Seed PyTorch at random; the test's output says with what."""
    import torch

    found = int(rng.integers(1 << 31))
    torch.manual_seed(found)
    return found


@pytest.fixture(autouse=True)
def one_thread():
    """Let PyTorch use one thread: networks are tiny, and tests run beside others."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
