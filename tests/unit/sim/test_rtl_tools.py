# SPDX-License-Identifier: Apache-2.0
"""Programs of the host: what is said when they are missing or fail."""

import pathlib

import pytest

from opendpu_arch.errors import ToolError
from opendpu_hw import cache
from opendpu_sim.rtl import build, tools

TEXT = "module opendpu_top(input aclk);\nendmodule\n"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.ENVIRONMENT, str(tmp_path / "cache"))
    tools.host.cache_clear()
    yield
    tools.host.cache_clear()


def test_no_compiler_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match=r"'g\+\+' is not on the PATH.*apt install g\+\+"):
        build.build(TEXT)
    assert not (tmp_path / "cache").exists()


def test_no_make_names_the_package(tmp_path, monkeypatch):
    gxx = tools.find("g++")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "g++").symlink_to(gxx)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(ToolError, match=r"'make' is not on the PATH.*apt install make"):
        build.build(TEXT)


def test_failure_shows_what_the_program_said(tmp_path):
    with pytest.raises(ToolError, match=r"sh failed with status 3:\nbad luck"):
        tools.run(["sh", "-c", "echo bad luck; exit 3"], cwd=tmp_path)


@pytest.mark.cosim
def test_wrong_verilog_leaves_no_library(tmp_path):
    with pytest.raises(ToolError, match=r"verilator_bin failed"):
        build.build("module opendpu_top(input aclk); nonsense endmodule\n")
    left = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert [p.suffix for p in left] == [".lock"]
    assert isinstance(tools.VERILATOR_ROOT, pathlib.Path)
