# SPDX-License-Identifier: Apache-2.0
"""The commands of the page "From a float ONNX model to a quantized graph" work."""

import os
import re
import subprocess
import sys

import pytest

import xir

pytestmark = pytest.mark.system

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_page(repository, models, tmp_path):
    blocks = BLOCK.findall((repository / "docs" / "quantize.md").read_text())
    assert [kind for kind, _ in blocks] == ["sh", "python"]
    printed = []
    for kind, code in blocks:
        command = ["bash", "-euc"] if kind == "sh" else [sys.executable, "-c"]
        result = subprocess.run(
            [*command, code],
            cwd=tmp_path,
            env={**os.environ, "MODELS": str(models)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        printed.append(result.stdout)
    scores = [float(n) for n in re.findall(r"(?:float|quantized): ([\d.]+)%", printed[1])]
    assert len(scores) == 2
    assert abs(scores[0] - scores[1]) < 3
    assert xir.Graph.deserialize(tmp_path / "kws_quantized.xmodel").has_attr("return_ops")
