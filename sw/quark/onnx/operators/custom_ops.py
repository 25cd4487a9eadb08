# SPDX-License-Identifier: Apache-2.0
"""Where scripts get the library that they register for Quark's operators.

Our files say as ONNX functions what these compute, and need none.
"""

from vai_q_onnx.operators.library import get_library_path

__all__ = ["get_library_path"]
