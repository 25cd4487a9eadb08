# SPDX-License-Identifier: Apache-2.0
"""What the installed programs call: each imports its command when it runs.

A program whose command lacks a package, or has too old a one, ends with one line and exit code 1.
That holds while the command runs, too, for packages that ``opendpu`` itself brings along. This
module imports nothing that has to be installed. The commands above this package are found by name:
it does not depend on them.
"""

import importlib
import sys

from opendpu_arch.errors import MissingExtraError, OldPackageError
from opendpu_arch.extras import brought_along, needs


def _run(program: str, module: str, function: str = "main") -> None:
    try:
        with needs(program):
            command = getattr(importlib.import_module(module), function)
        try:
            command()
        except ModuleNotFoundError as error:
            if not brought_along(error.name):
                raise
            with needs(program):
                raise
    except (MissingExtraError, OldPackageError) as error:
        sys.exit(f"{program}: error: {' '.join(str(error).split())}")


def opendpu() -> None:
    """Run ``opendpu``."""
    _run("opendpu", "opendpu.cli.main")


def vai_c_xir() -> None:
    """Run ``vai_c_xir``."""
    _run("vai_c_xir", "opendpu.cli.vai_c")


def vai_c_caffe() -> None:
    """Run ``vai_c_caffe``."""
    _run("vai_c_caffe", "opendpu.cli.caffe", "compiler")


def vai_c_tensorflow() -> None:
    """Run ``vai_c_tensorflow``."""
    _run("vai_c_tensorflow", "opendpu.cli.vai_c", "main_tensorflow")


def vai_c_tensorflow2() -> None:
    """Run ``vai_c_tensorflow2``."""
    _run("vai_c_tensorflow2", "opendpu.cli.vai_c", "main_tensorflow2")


def vai_c_onnx() -> None:
    """Run ``vai_c_onnx``."""
    _run("vai_c_onnx", "opendpu.cli.vai_c", "main_onnx")


def vai_q_caffe() -> None:
    """Run ``vai_q_caffe``."""
    _run("vai_q_caffe", "opendpu.cli.caffe", "quantizer")


def vai_q_tensorflow() -> None:
    """Run ``vai_q_tensorflow``."""
    _run("vai_q_tensorflow", "vai_q_tensorflow.main")


def xdputil() -> None:
    """Run ``xdputil``."""
    _run("xdputil", "xdputil.main")


def show_dpu() -> None:
    """Run ``show_dpu``."""
    _run("show_dpu", "xdputil.cores")


def vaitrace() -> None:
    """Run ``vaitrace``."""
    _run("vaitrace", "vaitrace.main")


def xir() -> None:
    """Run ``xir``."""
    _run("xir", "xir.cli")
