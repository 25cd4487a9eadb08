# SPDX-License-Identifier: Apache-2.0
"""Faults of the extension ``scaled``, in all packages."""

from mutation.mutant import mutants

HW = mutants(
    "hw/opendpu_hw/datapath/fixed_point.py",
    "unit/hw/test_fixed_point.py",
    ("scaled-negative-ties-rounded-up",
     "tie = negative & (~once | (exact[1] & ~total[:half_at].any()))",
     "tie = negative & ~once"),
    ("scaled-ties-only-of-the-upper-product",
     "exact[1].eq(exact[0] & ~low_sum[:_LOW_BITS].any()),",
     "exact[1].eq(~low_sum[:_LOW_BITS].any()),"),
    ("scaled-sum-wraps",
     "fits = ~top.any() | top.all()",
     "fits = 1"),
    ("scaled-below-the-limits-is-not-the-least",
     "with m.Elif(below | (moved < self.low)):",
     "with m.Elif(moved < self.low):"),
)  # fmt: skip

COMPILER = (
    *mutants(
        "sw/opendpu/compiler/legalize/scaled_functions.py",
        "unit/opendpu/frontend/litert/test_scaled.py",
        ("scaled-hard-swish-gate-not-doubled",
         "<< (1 if gate_shift > 0 else 0))",
         "<< 0)"),
        ("scaled-leaky-relu-one-multiplier",
         "for n in range(2))",
         "for n in (0, 0))"),
        ("scaled-constant-with-its-zero-point",
         "int(constant.value.ravel()[0]) - other.zero_point[0]",
         "int(constant.value.ravel()[0])"),
    ),
    *mutants(
        "sw/opendpu/compiler/emitter/transfer.py",
        "unit/opendpu/integer/test_scaled_programs.py",
        ("scaled-padding-of-load-is-zero",
         "const_value=memory.padding & 0xFF,",
         "const_value=0,"),
    ),
    *mutants(
        "sw/opendpu/compiler/dilation.py",
        "unit/opendpu/integer/test_scaled_programs.py",
        ("scaled-gathered-rows-pad-with-zeros",
         "return not source.quantization.zero_point[0]",
         "return True"),
    ),
    *mutants(
        "sw/opendpu/compiler/planner/cascade/weights.py",
        "unit/opendpu/integer/test_scaled_programs.py",
        ("scaled-cascades-load-terms-for-nothing",
         "return each * sum(len(terms) * many for terms, many in zip(own, stripes, strict=True))",
         "return each * different"),
    ),
)  # fmt: skip

MODEL = mutants(
    "sim/opendpu_sim/model/load.py",
    "unit/opendpu/integer/test_scaled_programs.py",
    ("scaled-iss-pads-with-zero",
     "data[~self.keep] = self.padding",
     "data[~self.keep] = 0"),
)  # fmt: skip

MUTANTS = (*HW, *COMPILER, *MODEL)
