# SPDX-License-Identifier: Apache-2.0
"""The command line of ``vai_q_tensorflow``: ``quantize``, ``inspect``, ``dump``."""

import argparse
import sys
from collections.abc import Sequence

from opendpu_arch.errors import DPUError
from vai_q_tensorflow import __version__
from vai_q_tensorflow.options import COMMON, DUMP, QUANTIZE, SESSION, add


def parser() -> argparse.ArgumentParser:
    """Return the parser, with all options of the guide."""
    made = argparse.ArgumentParser(
        prog="vai_q_tensorflow", description="Quantize frozen graphs of TensorFlow."
    )
    made.add_argument("--version", action="version", version=f"vai_q_tensorflow {__version__}")
    commands = made.add_subparsers(dest="command", required=True)
    for name, help_text, groups in (
        ("quantize", "Quantize a frozen graph.", (COMMON, QUANTIZE, SESSION)),
        ("inspect", "Say what operators, inputs and outputs a frozen graph has.", (COMMON,)),
        ("dump", "Write golden results of a quantized graph.", (COMMON, DUMP, SESSION)),
    ):
        command = commands.add_parser(name, help=help_text, description=help_text)
        for group in groups:
            add(command, group)
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; errors are one line on the error output, and exit code 1."""
    given = parser().parse_args(arguments)
    try:
        if given.command == "inspect":
            from vai_q_tensorflow.inspecting import inspect

            print(inspect(given.input_frozen_graph))  # noqa: T201
        elif given.command == "dump":
            from vai_q_tensorflow.dumping import dump

            dump(given)
        else:
            from vai_q_tensorflow.quantizing import quantize

            print("\n".join(quantize(given)))  # noqa: T201
    except DPUError as error:
        sys.exit(f"error: {error}")
