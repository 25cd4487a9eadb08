# SPDX-License-Identifier: Apache-2.0
"""docs/reference/targets.md: targets, banks, fingerprints."""

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from opendpu_arch.extensions import Extension
from opendpu_arch.target import ARCHITECTURES, Target, registered
from reference_pages.markdown import NOTE, table

OPTION_VALUES: dict[str, Sequence[Any]] = {
    "arch": range(len(ARCHITECTURES)),
    "alu_pixel_parallel": range(1, 9),
    "bank_groups": (1, 2, 3),
    "channel_augmentation": (False, True),
    "load_mean": (False, True),
    "conv_leaky_relu": (False, True),
    "alu_leaky_relu": (False, True),
    "save_argmax": (False, True),
    "log2_conv_write_parallel": range(4),
    "log2_alu_write_parallel": range(4),
}
"""Every option in the fingerprint with the values it can take."""


def option_bits(name: str) -> str:
    """Return the bits of the feature code that change with an option."""
    base = dataclasses.replace(Target.from_name("B4096"), alu_pixel_parallel=1)
    changed = 0
    for value in OPTION_VALUES[name]:
        changed |= dataclasses.replace(base, **{name: value}).feature_code ^ base.feature_code
    high, low = changed.bit_length() - 1, (changed & -changed).bit_length() - 1
    return f"{high}:{low}" if high != low else f"{low}"


def attribute_docs(kind: type) -> dict[str, str]:
    """Return the docstrings that follow the attributes of a class in its source."""
    [body] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    if not isinstance(body, ast.ClassDef):
        raise TypeError(f"{kind} is not written as a class")
    docs = {}
    for statement, following in itertools.pairwise(body.body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            docs[statement.target.id] = str(following.value.value)
    return docs


def page() -> str:
    """Return docs/reference/targets.md."""
    targets = [Target.from_name(name) for name in registered()]
    lines = [
        "# Targets",
        "",
        NOTE,
        "",
        "`Target.from_name` takes the short name (`B4096`), the full one",
        "(`DPUCZDX8G_ISA1_B4096`), a fingerprint (`0x101000056010407`), and the name that AMD's",
        "tools give to a fingerprint nobody registered",
        "(`DPUCZDX8G_ISA1_B4096_0101000016010407`). An `arch.json` holds one of",
        '`{"target": "DPUCZDX8G_ISA1_B4096"}` and `{"fingerprint": "0x101000056010407"}`.',
        "",
        "Names of [extensions](../extensions.md) come last: `B4096+table`. Their bits may also be",
        "in the fingerprint.",
        "",
        "PP is the number of output rows, CP the number of input channels and of output channels",
        "that the array works on at once; operations a cycle are two a multiply-accumulate.",
        "",
        "## Registered",
        "",
        *_registered_table(targets),
        "## Banks",
        "",
        "A bank is `bank_depth` words of CP bytes; all addresses wrap at the end of a bank. Bank",
        "ids count up from the image banks.",
        "",
        *_bank_table(targets),
        "## Fingerprint",
        "",
        "Bits 63:56 are the DPU type (1), 55:48 the ISA version (1), 47:0 the feature code:",
        "",
        *_option_table(targets),
        "Bits that no option claims are kept; bit 16 is set in every image we know of.",
        "",
        "### Extensions",
        "",
        "They add banks after BIAS, in this order: `table` TABLE, `channel` SHIFT, `scaled` SCALE",
        "and TERM.",
        "",
        *table(
            ["bit", "extension", "meaning"],
            [(e.feature_bit, f"`{e.label}`", e.meaning) for e in Extension],
        ),
        "### arch",
        "",
        *table(
            ["index", "target", "PP", "CP"],
            [
                (index, f"`B{2 * pixels * channels**2}`", pixels, channels)
                for index, (pixels, channels) in enumerate(ARCHITECTURES)
            ],
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _registered_table(targets: Sequence[Target]) -> list[str]:
    """Return the table of what targets have in parallel."""
    return table(
        ["target", "PP", "CP", "ALU PP", "operations a cycle", "fingerprint"],
        [
            (
                _short_name(t),
                t.pixel_parallel,
                t.channel_parallel,
                t.alu_pixel_parallel,
                t.peak,
                f"`{t.fingerprint:#x}`",
            )
            for t in targets
        ],
    )


def _bank_table(targets: Sequence[Target]) -> list[str]:
    """Return the table of bank ids and sizes."""
    return table(
        ["target", "image banks", "CONVW", "DWCONVW", "BIAS", "words × bytes", "KiB in all"],
        [
            (
                _short_name(t),
                f"0..{t.image_banks - 1} ({t.bank_groups} × {t.pixel_parallel})",
                f"{t.convw_base}..{t.dwconvw_bank - 1}",
                t.dwconvw_bank,
                t.bias_bank,
                f"{t.bank_depth} × {t.channel_parallel}",
                f"{t.bank_count * t.bank_depth * t.channel_parallel / 1024:g}",
            )
            for t in targets
        ],
    )


def _option_table(targets: Sequence[Target]) -> list[str]:
    """Return the table of options in the fingerprint, explained as in :class:`Target`."""
    docs = attribute_docs(Target)
    return table(
        ["bits", "option", "in the registered targets", "meaning"],
        [
            (
                option_bits(name),
                f"`{name}`",
                ", ".join(map(str, sorted({int(getattr(t, name)) for t in targets}))),
                re.sub(r":\w+:(?=`)", "", docs[name]),
            )
            for name in OPTION_VALUES
        ],
    )


def _short_name(target: Target) -> str:
    """Return a target's short name as Markdown."""
    return f"`{target.name.rpartition('_')[2]}`"
