# SPDX-License-Identifier: Apache-2.0
"""The command ``opendpu``."""

from opendpu.cli.app import app, end_on_signals


def main() -> None:
    """Run the command line."""
    end_on_signals()
    app(prog_name="opendpu")
