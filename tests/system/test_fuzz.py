# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing for a while, from the corpus in the repository."""

import os
import pathlib
import random
import re
import subprocess
import sys

import pytest

FUZZ = pathlib.Path(__file__).parents[1] / "fuzz"

pytestmark = [pytest.mark.system, pytest.mark.slow]


def fuzz(reader: str, folder: pathlib.Path, *options: str) -> subprocess.CompletedProcess:
    pytest.importorskip("atheris")
    return subprocess.run(
        [sys.executable, str(FUZZ / "fuzz.py"), reader, "--findings", str(folder), *options],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip


@pytest.mark.parametrize("reader", sorted(path.name for path in (FUZZ / "corpus").iterdir()))
def test_nothing_is_found(reader, tmp_path):
    """``OPENDPU_FUZZ_RUNS`` says how many inputs; ten million are a night's work."""
    runs = int(os.environ.get("OPENDPU_FUZZ_RUNS", "20000"))
    seed = int(os.environ.get("OPENDPU_SEED", random.randrange(1, 1 << 31)))
    print(f"OPENDPU_SEED={seed}")
    options = ["--runs", str(runs), "--seed", str(seed), "--corpus", str(tmp_path / "corpus")]
    done = fuzz(reader, tmp_path, *options)
    found = [path.read_bytes() for path in tmp_path.glob(f"{reader}-*")]
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n{found}"
    assert int(re.search(r"number_of_executed_units: (\d+)", done.stderr)[1]) >= runs


def test_findings_are_reported(tmp_path):
    """An input that takes more than it may is a finding: here the limit is none at all."""
    pytest.importorskip("atheris")
    text = (
        (FUZZ / "fuzz.py").read_text().replace("SECONDS, MEGABYTES = 1,", "SECONDS, MEGABYTES = 0,")
    )
    program = tmp_path / "fuzz.py"
    program.write_text(
        text.replace("pathlib.Path(__file__).parent", f"pathlib.Path({str(FUZZ)!r})")
    )
    done = subprocess.run(
        [sys.executable, str(program), "code", "--runs", "10", "--findings", str(tmp_path)],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "seconds" in done.stderr + done.stdout
    assert list(tmp_path.glob("code-crash-*"))


def test_new_inputs_stay_out_of_the_repository(tmp_path):
    before = {path: path.read_bytes() for path in (FUZZ / "corpus" / "npz").iterdir()}
    done = fuzz("npz", tmp_path, "--runs", "3000", "--seed", "5")
    assert done.returncode == 0, done.stderr[-3000:]
    assert list((tmp_path / "npz").iterdir())
    assert {path: path.read_bytes() for path in (FUZZ / "corpus" / "npz").iterdir()} == before
