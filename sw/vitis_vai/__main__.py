# SPDX-License-Identifier: Apache-2.0
"""Run a script that looks for ``vitis_vai`` inside TensorFlow, where AMD's is."""

import importlib
import pathlib
import runpy
import sys
import types

import vitis_vai
from vitis_vai import tensorflow1
from vitis_vai.python import vai_convert

PLACES = ("tensorflow.compiler", "tensorflow.contrib")
"""Packages that AMD's forks of TensorFlow 2 and 1 have it in."""


assert vai_convert  # scripts find it inside TensorFlow, too


def alias() -> None:
    """Let ``vitis_vai`` and its modules be found inside TensorFlow."""
    import tensorflow

    own = {name: module for name, module in sys.modules.items()
           if name == vitis_vai.__name__ or name.startswith(f"{vitis_vai.__name__}.")}  # fmt: skip
    for place in PLACES:
        try:
            package = importlib.import_module(place)
        except ModuleNotFoundError:  # TensorFlow 2 has no contrib
            package = types.ModuleType(place)
            sys.modules[place] = package
            setattr(tensorflow, place.partition(".")[2], package)
        package.vitis_vai = vitis_vai  # type: ignore[attr-defined]
        sys.modules.update({f"{place}.{name}": module for name, module in own.items()})


def main() -> None:
    """Run the script that the first argument names, with the others."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m vitis_vai SCRIPT.py [ARGUMENT ...]")
    sys.argv = sys.argv[1:]
    script = pathlib.Path(sys.argv[0])
    if script.is_file() and tensorflow1.is_needed(script.read_text(encoding="utf-8")):
        tensorflow1.install()
    alias()
    sys.path.insert(0, str(script.resolve().parent))  # as Python itself does
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
