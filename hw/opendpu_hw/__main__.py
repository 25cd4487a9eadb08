# SPDX-License-Identifier: Apache-2.0
"""``python -m opendpu_hw``: write the Verilog of a target, and what a board's tools need."""

import argparse
import ast
import sys

from opendpu_arch.errors import DPUError, UnsupportedError
from opendpu_arch.target import Target
from opendpu_hw import verilog
from opendpu_hw.boards import files
from opendpu_hw.boards.catalog import BOARDS, find_board


def _option(text):
    """Split ``NAME=VALUE``; the value is a Python literal, or text."""
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def _options(given):
    """Return the options by their names, of which each is said once."""
    said = list(given.option)
    if given.vendor:
        said.append(("vendor", None if given.vendor == "none" else given.vendor))
    options = {}
    for name, value in said:
        if options.get(name, value) != value:
            raise UnsupportedError(
                f"option {name} is said to be {options[name]!r} and {value!r}; say it once")
        options[name] = value
    return options


def main(arguments=None):
    """Write the Verilog and its description; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m opendpu_hw", description=__doc__)
    parser.add_argument(
        "--target", required=True,
        help="a name (B4096, DPUCZDX8G_ISA1_B4096) or a fingerprint (0x…)")
    parser.add_argument("-o", "--output", default="build", help="the folder to write to (build)")
    parser.add_argument(
        "--option", action="append", default=[], type=_option, metavar="NAME=VALUE",
        help="an option of the top module, may be repeated")
    parser.add_argument(
        "--vendor", choices=["xilinx", "ecp5", "none"],
        help="build array and memories of this vendor's primitives (that of the board's device; "
             "without a board none: plain Verilog)")
    parser.add_argument(
        "--board", metavar="|".join(BOARDS),
        help="write a project for this board too: IP, scripts, constraints, device tree")
    parser.add_argument(
        "--clock-mhz", type=float, metavar="MHZ",
        help="the DPU's clock on the board (the board's own default)")
    given = parser.parse_args(arguments)
    try:
        target = Target.from_name(given.target)
        options = _options(given)
        if given.board is not None:
            board = find_board(given.board)
            paths = files.write(
                board, target, given.output, clock_mhz=given.clock_mhz, **options)
        elif given.clock_mhz is not None:
            parser.error("--clock-mhz is of a board, but there is no --board")
        else:
            paths = verilog.write(target, given.output, **options)
    except (DPUError, OSError) as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    for path in paths:
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
