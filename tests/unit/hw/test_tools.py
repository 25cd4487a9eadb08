# SPDX-License-Identifier: Apache-2.0
"""Programs that synthesize: where they are looked for, and how they are run."""

import pytest

from opendpu_arch.errors import ToolError
from opendpu_hw import tools


@pytest.mark.parametrize(
    ("program", "hint"),
    [("ecppack", r"pip install opendpu\[boards\]"), ("yosys", "apt install yosys")],
)
def test_no_tool(monkeypatch, tmp_path, program, hint):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(ToolError, match=f"{program} is not on the PATH.*{hint}"):
        tools.run(tmp_path, program, "--version")


def test_files_in_the_temporary_folder(tmp_path):
    """YoWASP's programs, which see another one, read and write there, too."""
    (tmp_path / "one.v").write_text("module one(input a, output b); assign b = a; endmodule\n")
    try:
        tools.run(tmp_path, "yosys", "-q", "-p", "read_verilog one.v; write_json one.json")
    except ToolError as error:
        if "not on the PATH" not in str(error):
            raise
        pytest.skip(str(error))
    assert '"one"' in (tmp_path / "one.json").read_text()


def test_the_last_lines_of_a_failure(tmp_path):
    try:
        tools.find("yosys")
    except ToolError as error:
        pytest.skip(str(error))
    with pytest.raises(ToolError, match=r"(?s)yosys failed with status 1:.*missing\.v"):
        tools.run(tmp_path, "yosys", "-q", "-p", "read_verilog missing.v")
