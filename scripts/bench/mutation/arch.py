# SPDX-License-Identifier: Apache-2.0
"""Faults of the contract: arithmetic, rules, encodings, targets, assembly text, outputs."""

from mutation.mutant import mutants

NUMERICS = mutants(
    "arch/opendpu_arch/numerics.py",
    "unit/arch/test_numerics.py",
    ("numerics-round-half-down",
     "return (wide + (1 << (right - 1))) >> right",
     "return (wide + (1 << (right - 1)) - 1) >> right"),
    ("numerics-bias-of-a-channel-shifted-too-far",
     "np.minimum(shift_bias + (byte >> 4), MAX_SHIFT_BIAS)",
     "shift_bias + (byte >> 4)"),
    ("numerics-saturate-symmetric",
     "return np.clip(x, -128, 127).astype(np.int8)",
     "return np.clip(x, -127, 127).astype(np.int8)"),
    ("numerics-leaky-shift",
     "shift_round(t * 13, right + 7)",
     "shift_round(t * 13, right + 8)"),
    ("numerics-weights-16-sign",
     "return (low & 0xFF) | (high << 8)",
     "return low | (high << 8)"),
    ("numerics-average-factor-unsigned",
     "    factor = signed_byte(multi_factor)\n    return saturate",
     "    factor = multi_factor & 0xFF\n    return saturate"),
    ("numerics-hard-sigmoid-bound",
     "np.clip(line, 0, 1 << 32)",
     "np.clip(line, 0, 1 << 31)"),
    ("numerics-eltwise-guard-bits",
     "write_shift(shift_write) + 2 * GUARD_BITS)",
     "write_shift(shift_write) + GUARD_BITS)"),
    ("numerics-argmax-last-of-equals",
     "np.asarray(np.argmax(pixels, axis=-1)).astype(np.uint8)",
     "(pixels.shape[-1] - 1 - np.argmax(pixels[..., ::-1], axis=-1)).astype(np.uint8)"),
    ("numerics-std-round-of-negatives",
     "np.where(wide < 0, down + (above > 0.5), down + (above >= 0.5))",
     "np.where(wide < 0, down + (above >= 0.5), down + (above >= 0.5))"),
)  # fmt: skip

LEGAL = mutants(
    "arch/opendpu_arch/legal.py",
    "unit/arch/test_legal.py unit/hw/test_legality.py",
    ("legal-load-bank-one-more",
     "i.bank_id, 0, target.bank_count - 1, what",
     "i.bank_id, 0, target.bank_count, what"),
    ("legal-table-one-slot-more",
     "i.table, 0, table.SLOTS,",
     "i.table, 0, table.SLOTS + 1,"),
    ("legal-address-groups-one-row-less",
     "ADDRESS_GROUPS * parallel + 1 - rows - i.bank_id_in % parallel",
     "ADDRESS_GROUPS * parallel - rows - i.bank_id_in % parallel"),
    ("legal-alu-leaky-of-conv",
     "    if target.alu_leaky_relu:\n",
     "    if target.conv_leaky_relu:\n"),
    ("legal-jump-bank-without-last-row",
     "reach = entry.jump_bank * i.valid_pixel_parallel",
     "reach = entry.jump_bank * (i.valid_pixel_parallel - 1) + 1"),
)  # fmt: skip

ENCODING = (
    *mutants(
        "arch/opendpu_arch/isa/transfers.py",
        "unit/arch/test_isa.py unit/arch/test_bits.py",
        ("isa-jump-read-a-bit-short",
         "jump_read: int = bits(1, 25, 10, minus_one=True, doc=\"Bytes between two p",
         "jump_read: int = bits(1, 24, 10, minus_one=True, doc=\"Bytes between two p"),
    ),
    *mutants(
        "arch/opendpu_arch/bits.py",
        "unit/arch/test_bits.py",
        ("bits-zero-in-a-minus-one-field",
         "if not minimum <= value <= maximum:",
         "if not 0 <= value <= maximum:"),
        ("bits-reserved-dropped",
         "return cls(reserved=reserved if any(reserved) else (), **values)",
         "return cls(reserved=(), **values)"),
    ),
    *mutants(
        "arch/opendpu_arch/asm.py",
        "unit/arch/test_asm.py",
        ("asm-field-given-twice",
         "if key in values:",
         "if key in values and values[key] != value:"),
    ),
)  # fmt: skip

TARGET = mutants(
    "arch/opendpu_arch/target.py",
    "unit/arch/test_target.py",
    ("target-bank-groups-one-bit",
     "bank_groups=f >> 24 & 3,",
     "bank_groups=f >> 24 & 1 or 2,"),
    ("target-arch-json-contradiction",
     "if any(first != other for other in others):",
     "if any(first.arch != other.arch for other in others):"),
    ("target-alu-parallel-unchecked",
     "if not 1 <= self.alu_pixel_parallel <= self.pixel_parallel:",
     "if not 1 <= self.alu_pixel_parallel:"),
)  # fmt: skip

OUTPUTS = mutants(
    "arch/opendpu_arch/outputs.py",
    "unit/arch/test_outputs.py",
    ("outputs-half-written-file-stays",
     "    finally:\n        temporary.unlink(missing_ok=True)",
     "    finally:\n        pass"),
    ("outputs-symbolic-link-replaced",
     "def _replacing(path: Path) -> Iterator[IO[bytes]]:\n"
     "    target = pathlib.Path(os.path.realpath(path))",
     "def _replacing(path: Path) -> Iterator[IO[bytes]]:\n"
     "    target = pathlib.Path(path)"),
    ("outputs-input-replaced-through-a-link",
     "pathlib.Path(given).exists() and target.samefile(given)",
     "pathlib.Path(given) == target"),
    ("outputs-umask-ignored",
     "os.O_EXCL | os.O_CLOEXEC, 0o666)",
     "os.O_EXCL | os.O_CLOEXEC, 0o600)"),
)  # fmt: skip

MUTANTS = (*NUMERICS, *LEGAL, *ENCODING, *TARGET, *OUTPUTS)
