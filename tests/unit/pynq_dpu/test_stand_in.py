# SPDX-License-Identifier: Apache-2.0
"""What programs with an overlay use of PYNQ, where that is not installed."""

import importlib.machinery
import subprocess
import sys

import numpy as np
import pytest

from opendpu_arch.errors import UnsupportedError
from pynq_dpu import stand_in

PROGRAM = """
from pynq_dpu import DpuOverlay
import pynq
from pynq import allocate
assert pynq.get_rails() == {}
buffer = allocate((2, 3), dtype="f4")
print(type(buffer).__name__, buffer.shape, buffer.dtype, hasattr(pynq, "Overlay"))
try:
    from pynq import Overlay
except ImportError as error:
    print(error.name)
"""


def run(text: str, *paths: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {list(paths)!r}\n{text}"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.skipif(
    importlib.machinery.PathFinder.find_spec("pynq") is not None, reason="PYNQ is installed"
)
def test_programs_find_it():
    done = run(PROGRAM)
    assert done.stdout.splitlines() == ["PynqBuffer (2, 3) float32 False", "pynq"], done.stderr


def test_an_installed_package_is_found_first(tmp_path):
    (tmp_path / "pynq.py").write_text("HERE = 'installed'\n")
    done = run("import pynq_dpu, pynq; print(pynq.HERE)", str(tmp_path))
    assert done.stdout == "installed\n", done.stderr


def test_buffers_are_arrays():
    with stand_in.allocate(5, target="ddr", cacheable=0) as buffer:
        assert buffer.dtype == np.uint32 and not buffer.any()
        buffer[:] = 3
        buffer.flush()
        buffer.sync_to_device()
        buffer.invalidate()
        assert buffer.sum() == 15
    buffer.freebuffer()
    for name in ("device_address", "physical_address"):
        with pytest.raises(UnsupportedError, match="in place of pynq has no address for a device"):
            getattr(buffer, name)


def test_what_needs_a_board():
    with pytest.raises(AttributeError, match=r"pynq\.MMIO needs a board: without one, pynq has"):
        _ = stand_in.MMIO
