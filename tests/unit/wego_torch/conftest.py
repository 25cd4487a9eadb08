# SPDX-License-Identifier: Apache-2.0
"""Each test works in a folder of its own, with a cache of its own."""

import sys
from pathlib import Path

import pytest
from frameworks.torch_fixtures import seed as seed

for folder in (Path(__file__).parent, Path(__file__).parent.parent / "pytorch_nndct"):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # lets tests import the helpers beside them


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make a temporary folder the current one; what is compiled is kept there too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENDPU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XLNX_TARGET_NAME", "DPUCZDX8G_ISA1_B512")
    monkeypatch.delenv("OPENDPU_DEVICE", raising=False)
    return tmp_path
