# SPDX-License-Identifier: Apache-2.0
"""These tests need PyTorch, the extra ``opendpu[torch]``."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

sys.path.append(str(Path(__file__).parent))  # lets tests import the helpers beside them
