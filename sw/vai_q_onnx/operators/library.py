# SPDX-License-Identifier: Apache-2.0
"""The library of operators that the guide registers before it runs a quantized model."""

from opendpu_arch.errors import ToolError


def get_library_path(device: str = "CPU") -> str:
    """Return the library of ``onnxruntime_extensions``, to which AMD's module adds its operators.

    It is the same for every ``device``; Quark has one for each kind.

    Models that this module writes say themselves what their operators compute; with or without the
    library, onnxruntime gives the same numbers.

    Raises
    ------
    ToolError
        ``onnxruntime_extensions`` is not installed.
    """
    try:
        import onnxruntime_extensions
    except ImportError:
        raise ToolError(
            "onnxruntime_extensions is not installed; models of this vai_q_onnx need no library: "
            "leave register_custom_ops_library out, or pip install onnxruntime_extensions"
        ) from None
    return str(onnxruntime_extensions.get_library_path())
