# SPDX-License-Identifier: Apache-2.0
"""``python -m opendpu_hw``: write the Verilog of a target."""

import argparse
import ast
import sys

from opendpu_arch.errors import DPUError
from opendpu_arch.target import Target
from opendpu_hw import verilog


def _option(text):
    """Split ``NAME=VALUE``; the value is a Python literal, or text."""
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


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
        "--vendor", choices=["xilinx"],
        help="build the array from this vendor's primitives (plain multiplications)")
    given = parser.parse_args(arguments)
    try:
        target = Target.from_name(given.target)
        options = dict(given.option) | ({"vendor": given.vendor} if given.vendor else {})
        paths = verilog.write(target, given.output, **options)
    except (DPUError, OSError, TypeError) as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    for path in paths:
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
