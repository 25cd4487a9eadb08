# SPDX-License-Identifier: Apache-2.0
"""The command ``opendpu``: every command registers itself when it is imported."""

from opendpu.cli import (
    compile,
    disasm,
    evaluate,
    info,
    inspect,
    optimize,
    profile,
    quantize,
    run,
    targets,
)
from opendpu.cli.app import app, end_on_signals

__all__ = ["COMMANDS", "app", "main"]

COMMANDS = (compile, disasm, evaluate, info, inspect, optimize, profile, quantize, run, targets)
"""Modules of the commands."""


def main() -> None:
    """Run the command line."""
    end_on_signals()
    app(prog_name="opendpu")
