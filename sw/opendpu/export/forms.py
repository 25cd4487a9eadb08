# SPDX-License-Identifier: Apache-2.0
"""The forms in which an ONNX file says that a tensor is quantized.

``native`` is ONNX's own pair QuantizeLinear, DequantizeLinear. All others are operators of AMD's
quantizers; the file says as functions what they compute, so that onnxruntime runs it without a
library of operators.
"""

import dataclasses

from opendpu_arch.errors import UnsupportedError


@dataclasses.dataclass(frozen=True)
class Form:
    """Operators that quantize.

    Parameters
    ----------
    name
        What users call it.
    domain
        Domain of the operators.
    quantize, dequantize
        The pair; empty where one operator does both.
    both
        The operator that does both.
    pairs
        Whether constants are kept as floats with the operators behind, as AMD's quantizers write
        them (``AddQDQPairToWeight``); else as integers with ``dequantize`` behind.
    """

    name: str
    domain: str = ""
    quantize: str = ""
    dequantize: str = ""
    both: str = ""
    pairs: bool = True

    @property
    def is_native(self) -> bool:
        """Whether the operators are ONNX's own."""
        return not self.domain


_ALL = (
    Form("native", "", "QuantizeLinear", "DequantizeLinear", pairs=False),
    Form("vai", "ai.onnx.contrib", "VAIQuantizeLinear", "VAIDeQuantizeLinear"),
    Form("vitis", "com.vai.quantize", "VitisQuantizeLinear", "VitisDequantizeLinear"),
    Form("quark", "com.amd.quark", "ExtendedQuantizeLinear", "ExtendedDequantizeLinear"),
    Form("fixneuron", "com.vai.quantize", both="FixNeuron"),
    Form("nndct", "vai", "QuantizeLinear", "DequantizeLinear"),
)
FORMS = {form.name: form for form in _ALL}
"""By name: ``native``; ``vai``, the guide's VAIQuantizeLinear; ``vitis`` and ``quark``, what that
was called later; ``fixneuron``; ``nndct``, the operators of AMD's quantizer for PyTorch."""


def form_of(name: str) -> Form:
    """Return the form of a name.

    Raises
    ------
    UnsupportedError
        There is none of this name.
    """
    if name not in FORMS:
        raise UnsupportedError(
            f"form {name!r} of quantized ONNX files is unknown; choose one of {', '.join(FORMS)}"
        )
    return FORMS[name]
