# SPDX-License-Identifier: Apache-2.0
"""Each test works in a folder of its own."""

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Make a temporary folder the current one, as files are written there."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
