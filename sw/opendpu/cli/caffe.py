# SPDX-License-Identifier: Apache-2.0
"""The commands that Vitis AI 1 had for Caffe: they name those that do the same here."""

import argparse
import pathlib
import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

GONE = "AMD dropped Caffe with Vitis AI 2.5"
ARCH = "arch.json"


def _given(command: str, arguments: Sequence[str] | None, names: dict[str, str]) -> dict[str, str]:
    """Return the values of options, by what they are; nothing of an option is required.

    ``names`` has each option's names, with blanks between. Options go with one or two dashes.
    """
    parser = argparse.ArgumentParser(prog=command, add_help=False, allow_abbrev=False)
    for what, every in names.items():
        flags = [dashes + name for name in every.split() for dashes in ("-", "--")]
        parser.add_argument(*flags, dest=what)
    found, _ = parser.parse_known_args(arguments)
    return {what: value for what, value in vars(found).items() if value is not None}


def _end(command: str, words: Sequence[str], why: str) -> NoReturn:
    sys.exit(f"{command}: error: {GONE}. {why}: {shlex.join(['opendpu', *words])}")


def quantizer(arguments: Sequence[str] | None = None) -> NoReturn:
    """End with the command that quantizes the network that ``vai_q_caffe`` was given."""
    found = _given(
        "vai_q_caffe",
        arguments,
        {"net": "model", "weights": "weights", "steps": "calib_iter", "folder": "output_dir"},
    )
    folder = pathlib.PurePath(found.get("folder", "quantize_results"))
    words = ["quantize", found.get("net", "float.prototxt"), "--calib", "IMAGES", "-o"]
    why = (
        f"This quantizes the network, whose weights are {found.get('weights', 'a .caffemodel')} "
        "beside it, with a folder of images"
    )
    _end("vai_q_caffe", [*words, str(folder / "deploy.xmodel")], why)


def compiler(arguments: Sequence[str] | None = None) -> NoReturn:
    """End with the command that compiles what ``vai_c_caffe`` was given."""
    found = _given(
        "vai_c_caffe",
        arguments,
        {
            "net": "p prototxt", "weights": "c caffemodel", "arch": "a arch",
            "folder": "o output_dir", "name": "n net_name",
        },
    )  # fmt: skip
    net = pathlib.PurePath(found.get("net", "deploy.prototxt"))
    compiled = pathlib.PurePath(found.get("folder", "."), f"{found.get('name', 'deploy')}.xmodel")
    words = ["compile", str(net), "--target", found.get("arch", ARCH), "--calib", "IMAGES"]
    why = (
        f"The float network, with its .caffemodel beside it, is quantized with a folder of images "
        f"and compiled by this; what opendpu quantize wrote takes the place of {net.name} without "
        "--calib"
    )
    _end("vai_c_caffe", [*words, "-o", str(compiled)], why)
