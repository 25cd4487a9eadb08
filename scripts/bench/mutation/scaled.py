# SPDX-License-Identifier: Apache-2.0
"""Faults of the extension ``scaled``, in all packages."""

from mutation.mutant import mutants

HW = (
    *mutants(
        "hw/opendpu_hw/datapath/fixed_product.py",
        "unit/hw/test_fixed_point.py",
        ("scaled-negative-ties-rounded-up",
         "low - less)",
         "low)"),
        ("scaled-half-of-negative-sums-added",
         "(negative[4] & ~once[4]).replicate(",
         "Const(0).replicate("),
        ("scaled-product-a-bit-short",
         "signed(scaled.SUM_BITS + len(part))",
         "signed(scaled.SUM_BITS + len(part) - 1)"),
        ("scaled-sum-wraps",
         "beyond.eq(top.any() & ~top.all())",
         "beyond.eq(0)"),
    ),
    *mutants(
        "hw/opendpu_hw/datapath/fixed_product.py",
        "unit/hw/test_fixed_blocks.py",
        ("scaled-block-without-the-rest-of-a-sum",
         "products[0] + (products[1] << 1)",
         "products[0]"),
        ("scaled-block-takes-nothing-from-negative-products",
         "d_for_a=beyond, less=less)",
         "d_for_a=beyond, less=Const(0))"),
    ),
    *mutants(
        "hw/opendpu_hw/datapath/fixed_point.py",
        "unit/hw/test_fixed_point.py",
        ("scaled-below-the-limits-is-not-the-least",
         "(below | too_low | exceeds(self.low, byte))",
         "exceeds(self.low, byte)"),
        ("scaled-zero-point-before-rounding",
         "+ Cat(Const(1, 2), self.zero).as_signed())[2:]",
         "+ Cat(Const(0, 2), self.zero).as_signed())[2:]"),
    ),
    *mutants(
        "hw/opendpu_hw/datapath/tap_sums.py",
        "unit/hw/test_tap_sums.py",
        ("scaled-sums-of-the-second-row-without-their-sign",
         "upper[-1].replicate(beyond)",
         "0"),
        ("scaled-term-above-the-block-counts-for-others",
         "termed.eq(self.termed)]",
         "termed.eq(1)]"),
    ),
    *mutants(
        "hw/opendpu_hw/engine/misc_sums.py",
        "cosim/test_extensions_rtl.py::test_random_programs",
        ("scaled-product-of-terms-added",
         "termed.eq(s3.scaled & (s3.op == Op.ADD))",
         "termed.eq(s3.scaled)"),
    ),
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
