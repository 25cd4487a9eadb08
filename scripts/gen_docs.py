# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference from the contract; ``--check`` fails where a page is not up to date."""

import argparse
import pathlib
import sys
from collections.abc import Callable

from reference_pages import (
    error_codes,
    isa,
    legality,
    onnx_operators,
    operators,
    registers,
    targets,
)

from opendpu_arch import outputs

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "isa.md": isa.page,
    "legality.md": legality.page,
    "targets.md": targets.page,
    "registers.md": registers.page,
    "error_codes.md": error_codes.page,
    "supported_operators.md": operators.page,
    "onnx_operators.md": onnx_operators.page,
}

MEASURED = ("onnx_operators.md",)
"""Pages that take long to write; a test checks them, ``--check`` does not."""


def main() -> int:
    """Run the script; returns its exit code."""
    parser = argparse.ArgumentParser(description="Write docs/reference from the contract.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    arguments = parser.parse_args()
    stale = []
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        if arguments.check and name in MEASURED:
            continue
        path, text = FOLDER / name, page()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not arguments.check:
            outputs.write(path, text)
    verb = "not up to date" if arguments.check else "written"
    for name in stale:
        print(f"docs/reference/{name}: {verb}")
    if arguments.check and stale:
        print("run 'make docs' and commit the result", file=sys.stderr)
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
