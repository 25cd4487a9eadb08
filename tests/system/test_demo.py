# SPDX-License-Identifier: Apache-2.0
"""The demo and the commands of the README and the Verilog page, on a small target."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

pytestmark = [pytest.mark.system, pytest.mark.cosim]

BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCRIPTS = pathlib.Path("scripts", "demo", "run.py")


def run(command: list[str], folder: pathlib.Path) -> str:
    binaries = pathlib.Path(sys.executable).parent
    result = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    assert not result.stderr, "a pipe gets no progress"
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Where the commands run: a tree with what the commands read and an empty ``build``."""
    path = tmp_path_factory.mktemp("demo")
    repository = pathlib.Path(__file__).resolve().parents[2]
    for name in ("scripts", "hw"):
        (path / name).symlink_to(repository / name)
    return path


@pytest.fixture(scope="module")
def demo(folder: pathlib.Path) -> str:
    output = str(folder / "build" / "demo")
    options = ["--target", "B64", "--images", "12", "--output", output]
    return run([sys.executable, str(SCRIPTS), *options], folder)


def test_the_demo_shows_digits_and_agreement(demo: str) -> None:
    assert demo.count("██") > 50
    assert len(re.findall(r"ISS \d = RTL \d", demo)) == 8
    assert re.search(r"accuracy, float .* \d+\.\d% \(\d+ of 12\)", demo)
    assert "12 of 12 images" in demo
    assert "opendpu --help" in demo


def test_the_demo_reports_a_plausible_machine(demo: str) -> None:
    found = re.search(r"cycles an image\s*│ (\d+) ", demo)
    assert found
    ideal = 84224 / 32  # multiplications of the network, and those B64 does in a cycle
    assert ideal < int(found[1]) < 4 * ideal
    used = re.search(r"array utilisation\s*│ ([\d.]+)%", demo)
    assert used
    assert float(used[1]) == pytest.approx(100 * ideal / int(found[1]), abs=0.1)


def test_the_demo_refuses_what_does_not_exist(folder: pathlib.Path) -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPTS), "--target", "B65"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stdout.startswith(
        "demo: error: [TARGET_FACTORY_UNREGISTERED_TARGET] no target is called 'B65'; "
    )


def test_the_commands_of_the_readme(demo: str, folder: pathlib.Path) -> None:
    text = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    blocks = [b for b in BLOCK.findall(text) if "MODEL." not in b]
    assert len(blocks) == 3
    for block in blocks:
        small = block.replace("B512", "B64").replace("B4096", "B64")
        run(["bash", "-euc", small], folder)
    assert (folder / "build" / "verilog" / "DPUCZDX8G_ISA1_B64.v").is_file()
    assert "<svg" in (folder / "build" / "digits.svg").read_text(encoding="utf-8")
    assert json.loads((folder / "build" / "digits.json").read_text(encoding="utf-8"))
    with np.load(folder / "build" / "out.npz") as out:
        [logits] = out.values()
    assert logits.shape == (360, 1, 10)


def test_the_commands_of_the_verilog_page(folder: pathlib.Path) -> None:
    page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "generate_verilog.md"
    blocks = [b for b in BLOCK.findall(page.read_text(encoding="utf-8")) if "MODEL" not in b]
    assert len(blocks) == 2
    for block in blocks:
        run(["bash", "-euc", block.replace("B4096", "B64")], folder)
