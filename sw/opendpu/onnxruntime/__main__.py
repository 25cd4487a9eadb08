# SPDX-License-Identifier: Apache-2.0
"""Run a script whose ``VitisAIExecutionProvider`` is ours: ``python -m opendpu.onnxruntime``."""

import pathlib
import runpy
import sys

from opendpu.onnxruntime.registration import register
from opendpu_arch.errors import DPUError

USAGE = "usage: python -m opendpu.onnxruntime SCRIPT [ARGUMENT ...]"


def main(arguments: list[str]) -> int:
    """Run the script as ``__main__``, with its arguments; return the exit status."""
    if not arguments or arguments[0].startswith("-"):
        asked = arguments[:1] == ["--help"]
        (sys.stdout if asked else sys.stderr).write(f"{USAGE}\n")
        return 0 if asked else 2
    try:
        register()
    except DPUError as error:
        sys.stderr.write(f"opendpu.onnxruntime: {error}\n")
        return 1
    sys.argv = arguments
    sys.path.insert(0, str(pathlib.Path(arguments[0]).resolve().parent))  # as Python itself does
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
