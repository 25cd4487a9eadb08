# SPDX-License-Identifier: Apache-2.0
"""Each test works in a folder of its own."""

import sys
from pathlib import Path

import pytest
from frameworks.torch_fixtures import seed as seed

sys.path.append(str(Path(__file__).parent))  # lets tests import the helpers beside them


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make a temporary folder the current one, as results are written there by default."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
