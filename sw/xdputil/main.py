# SPDX-License-Identifier: Apache-2.0
"""The command ``xdputil``: every command registers itself when it is imported."""

from opendpu.cli.app import end_on_signals
from xdputil import benchmark, compare, execute, model, query
from xdputil.app import app

COMMANDS = (benchmark, compare, execute, model, query)
"""Modules of the commands."""


def main() -> None:
    """Run the command line."""
    end_on_signals()
    app(prog_name="xdputil")
