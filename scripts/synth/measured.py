# SPDX-License-Identifier: Apache-2.0
"""What was measured of a design stays true while design and tools stay: a file that is committed.

Synthesis, placement and routing give the same figures of the same Verilog each time, and take ten
minutes of a processor. A file of them, by the names that limits have, says with each which design
and which tools it is of; where either is another, it is measured again.
"""

import argparse
import hashlib
import importlib.metadata
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError
from opendpu_hw import tools


def tool_version(program: str) -> str:
    """Return which version of a program would run, without running it where YoWASP has it."""
    package = pathlib.Path(tools.find(program)).name
    if package.startswith("yowasp-"):
        return f"{package} {importlib.metadata.version(package)}"
    return str(tools.run(pathlib.Path(), program, "--version")).strip()


def read(path: pathlib.Path, *keys: str) -> dict[str, Any]:
    """Return what a JSON file of limits or figures holds, ``keys`` among it.

    Raises
    ------
    ModelFormatError
        It cannot be read, is no JSON, or has none of a key.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelFormatError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ModelFormatError(f"{path} is no JSON file: {error}") from error
    if not isinstance(found, dict) or not found.keys() >= set(keys):
        raise ModelFormatError(f"{path} must have an object with {', '.join(keys) or 'figures'}")
    return found


def check_outputs(folder: pathlib.Path, record: pathlib.Path | None) -> None:
    """Raise OutputError, before long work, where figures could not be written.

    Parameters
    ----------
    folder
        Made if need be.
    record
        A file for :func:`keep`, or None.
    """
    outputs.check_folder(folder)
    if record is not None:
        outputs.check(record)


def digest(*texts: str) -> str:
    """Return what tells a design, what is done with it and by which tools from all others."""
    found = hashlib.sha256()
    for text in texts:
        found.update(hashlib.sha256(text.encode()).digest())
    return found.hexdigest()


def find(path: pathlib.Path | None, name: str, design: str) -> dict[str, Any] | None:
    """Return the figures that a file has of a name, if they are of this design.

    Parameters
    ----------
    path
        None, or a file that need not be there yet.
    design
        Of :func:`digest`.
    """
    if path is None or not path.exists():
        return None
    entry = read(path).get(name)
    return dict(entry["figures"]) if entry and entry["design"] == design else None


def keep(path: pathlib.Path | None, found: Mapping[str, tuple[str, dict[str, Any]]]) -> None:
    """Put designs and their figures into the file, in place of what it has of their names."""
    if path is None or not found:
        return
    entries = read(path) if path.exists() else {}
    for name, (design, figures) in found.items():
        entries[name] = {"design": design, "figures": figures}
    outputs.write(path, json.dumps(dict(sorted(entries.items())), indent=1) + "\n")


def count(text: str) -> int:
    """Return what an option counts.

    Raises
    ------
    argparse.ArgumentTypeError
        It is no number, or less than zero.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no count, which is 0 or more")
    return int(text)


def path(text: str) -> pathlib.Path:
    """Return the path that an option names.

    Raises
    ------
    argparse.ArgumentTypeError
        It is empty, which pathlib takes for the current folder.
    """
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; . is the current folder")
    return pathlib.Path(text)


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the file."""
    parser.add_argument(
        "--measured", type=path, metavar="FILE",
        help="a JSON file with figures and the designs they are of; others are added",
    )  # fmt: skip
