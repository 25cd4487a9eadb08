# SPDX-License-Identifier: Apache-2.0
"""The command ``opendpu``: every command registers itself when it is imported."""

from opendpu.cli import compile, disasm, profile, run, targets
from opendpu.cli.app import app

COMMANDS = (compile, disasm, profile, run, targets)
"""Modules of the commands."""


def main() -> None:
    """Run the command line."""
    app(prog_name="opendpu")
