# SPDX-License-Identifier: Apache-2.0
"""The benchmark of RTL simulation measures what it says: a busy array, right results."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cosim


@pytest.mark.parametrize("memory", ["ideal", "kv260"])
def test_figures(repository, memory):
    script = repository / "scripts" / "bench" / "bench_rtl.py"
    command = [sys.executable, str(script), "--target", "B64", "--memory", memory]
    done = subprocess.run(
        [*command, "--cycles", "40000"], capture_output=True, text=True, check=True
    )
    figures = json.loads(done.stdout)
    assert figures["target"] == "DPUCZDX8G_ISA1_B64"
    assert figures["memory"] == memory
    assert figures["equal_to_iss"] is True
    assert 36_000 < figures["cycles"] < 46_000
    assert figures["array_busy"] > 0.9
    rate = figures["cycles"] / figures["seconds"]
    assert figures["cycles_per_second"] == pytest.approx(rate, rel=0.05)
    macs = figures["cycles_per_second"] * figures["array_busy"] * 64 / 2
    assert figures["macs_per_second"] == pytest.approx(macs, rel=0.05)
