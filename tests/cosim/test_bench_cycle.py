# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the cycle model runs, and finds it exact."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.cosim


def test_the_model_is_exact(repository):
    script = repository / "scripts" / "bench" / "bench_cycle.py"
    command = [sys.executable, str(script), "random", "--target", "B64", "--memory", "ideal"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    (figures,) = json.loads(done.stdout)
    assert figures["cycles"] == figures["rtl_cycles"] > 0
    assert figures["largest_error_cycles"] == 0
    assert figures["cycles_a_second"] > 0
