# SPDX-License-Identifier: Apache-2.0
"""Run a script that looks for ``vitis_vai`` inside TensorFlow, where AMD's is."""

import importlib
import runpy
import sys
import types

import vitis_vai

PLACES = ("tensorflow.compiler", "tensorflow.contrib")
"""Packages that AMD's forks of TensorFlow 2 and 1 have it in."""


def alias() -> None:
    """Let ``vitis_vai`` be found inside TensorFlow."""
    import tensorflow

    for place in PLACES:
        try:
            package = importlib.import_module(place)
        except ModuleNotFoundError:  # TensorFlow 2 has no contrib
            package = types.ModuleType(place)
            sys.modules[place] = package
            setattr(tensorflow, place.partition(".")[2], package)
        package.vitis_vai = vitis_vai  # type: ignore[attr-defined]
        sys.modules[f"{place}.vitis_vai"] = vitis_vai


def main() -> None:
    """Run the script that the first argument names, with the others."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m vitis_vai SCRIPT.py [ARGUMENT ...]")
    alias()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
