# SPDX-License-Identifier: Apache-2.0
"""Operators that quantize: those of AMD's quantizers, and TensorFlow's own where a DPU does so.

``FakeQuantWithMinMax*`` of 8 bits rounds halves up; with a range of ``-128 * s .. 127 * s`` it
is what the DPU does for a scale ``s`` that is a power of two.
"""

import math

import numpy as np

from opendpu.frontend.channels_last.fixing import fixed
from opendpu.frontend.refusal import Refusal
from opendpu.frontend.tensorflow.registry import Call, handles

TOLERANCE = 1e-6


@handles("FixNeuron")
def fix_neuron(call: Call) -> str:
    """AMD's: ``quantize_pos`` fractional bits of ``bit_width``."""
    bits = call.attr("bit_width", 8)
    if bits != 8:
        raise Refusal(f"bit_width is {bits}, but the DPU has 8 bits")
    position = call.attr("quantize_pos", 0)
    point = position[-1] if isinstance(position, list) else position
    return fixed(call.b, call.x, int(point), name=call.name)


@handles("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars")
def fake_quant(call: Call) -> str:
    """TensorFlow's, with the range of int8 and a power of two."""
    if call.node.op.endswith("Args"):
        low, high = call.attr("min", -6.0), call.attr("max", 6.0)
    else:
        low, high = (float(call.constant(i, "ranges").ravel()[0]) for i in (1, 2))
    bits, narrow = call.attr("num_bits", 8), call.attr("narrow_range", False)
    scale = (high - low) / (2**bits - 1 - narrow)
    mantissa, exponent = math.frexp(scale)
    exact = bits == 8 and not narrow and mantissa == 0.5
    if not exact or not np.isclose(low, -128 * scale, rtol=TOLERANCE):
        raise Refusal(
            f"it rounds {low:g}..{high:g} to {bits} bits, but the DPU needs 8 bits and the range "
            "-128..127 times a power of two; quantize the float model"
        )
    return fixed(call.b, call.x, 1 - exponent, name=call.name)
