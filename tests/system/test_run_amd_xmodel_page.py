# SPDX-License-Identifier: Apache-2.0
"""Every command of the page "Run an AMD-compiled xmodel" works, in order, in one folder."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.system

BLOCK = re.compile(r"^```(sh slow|sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(blocks, folder: pathlib.Path, models: pathlib.Path) -> list[str]:
    """Run code blocks and return what each printed."""
    environment = {
        **os.environ,
        "MODELS": str(models / "amd_compiled"),
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    outputs = []
    for kind, code in blocks:
        command = [sys.executable, "-c"] if kind == "python" else ["bash", "-euc"]
        result = subprocess.run(
            [*command, code],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"{code}\n{result.stdout}\n{result.stderr}"
        outputs.append(result.stdout)
    return outputs


def test_the_page(repository, models, tmp_path):
    blocks = BLOCK.findall((repository / "docs/run_amd_xmodel.md").read_text(encoding="utf-8"))
    outputs = run([block for block in blocks if block[0] != "sh slow"], tmp_path, models)
    everything = "\n".join(outputs)
    assert "DPUCZDX8G_ISA1_B4096 (0x101000056010407), 230 instructions" in everything
    assert "takes quant_input_1 [1, 28, 28, 1] xint8 6" in everything
    assert '"jobs": 8' in everything
    assert "JobStatistics(device='iss'" in everything
    assert "'subgraph_quant_conv2d', 'subgraph_quant_dense(TransferMatMulToConv2d)'" in everything


@pytest.mark.slow
@pytest.mark.cosim
def test_the_page_on_rtl(repository, models, tmp_path):
    blocks = BLOCK.findall((repository / "docs/run_amd_xmodel.md").read_text(encoding="utf-8"))
    slow = [block for block in blocks if block[0] == "sh slow"]
    assert slow
    inputs = next(code for kind, code in blocks if kind == "sh" and "in.npz" in code)
    *_, statistics = run([("sh", inputs), *slow], tmp_path, models)
    assert '"device": "rtl"' in statistics
