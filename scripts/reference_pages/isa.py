# SPDX-License-Identifier: Apache-2.0
"""docs/reference/isa.md: the instructions, field by field."""

import enum
from collections.abc import Iterable

from opendpu_arch import isa
from opendpu_arch.bits import BitField
from reference_pages.markdown import NOTE, sentence, table


def field_rows(fields: Iterable[BitField]) -> list[tuple[object, ...]]:
    """Return the rows of an instruction's table, in the order of the words, high bits first."""
    ordered = sorted(fields, key=lambda f: (f.word, -f.high))
    return [
        (
            f"w{f.word}[{f.high}:{f.low}]" if f.high != f.low else f"w{f.word}[{f.low}]",
            f"`{f.name}`",
            f"{f.minimum}..{f.maximum}" + (" (less one)" if f.minus_one else ""),
            f.doc + (f" *Extension `{f.extension}`.*" if f.extension else ""),
        )
        for f in ordered
    ]


def enum_table(kind: type[enum.IntEnum], used_by: str) -> list[str]:
    """Return the section of one enumeration."""
    values = table(["value", "name"], [(int(v), f"`{v.name}`") for v in kind])
    return [f"### {kind.__name__}", "", f"{sentence(kind.__doc__)} {used_by}", "", *values]


def page() -> str:
    """Return docs/reference/isa.md."""
    lines = [
        "# Instructions of DPUCZDX8G ISA1",
        "",
        NOTE,
        "",
        "A program is a sequence of little-endian 32-bit words. The opcode, bits [31:28] of an",
        "instruction's first word, gives its length. `w1[25:10]` below is bits 25 to 10 of the",
        'instruction\'s word 1. Fields marked "less one" store their value less one; the text form',
        "and every API give the value itself. Bits that no table claims are ignored by the machine",
        "and kept by the decoder, so that what was decoded encodes to the same bytes.",
        "",
        "Fields of an [extension](../extensions.md) are bits that ISA1 leaves free and AMD's",
        "compiler writes as zero. The text form leaves them out where they are zero.",
        "",
        "What a target refuses to execute is in [legality.md](legality.md); what the engines",
        "compute is in [../numerics.md](../numerics.md).",
        "",
        "## Overview",
        "",
        *table(
            ["opcode", "instruction", "words", "queue", "does"],
            [
                (
                    f"{opcode:#x}",
                    f"[{cls.mnemonic()}](#{cls.mnemonic().lower()})",
                    cls.WORDS,
                    cls.ENGINE.name,
                    sentence(cls.__doc__),
                )
                for opcode, cls in sorted(isa.INSTRUCTIONS.items())
            ],
        ),
        "## Dependencies",
        "",
        "Four queues run in parallel, each in order. Every pair of queues has a counter of tokens,",
        "zero at the start. An instruction waits until each *other* queue named in its `dpdon` has",
        "given it a token and takes that token; when it has finished and its results are visible,",
        "it gives one token to each other queue named in its `dpdby`. An instruction's own bit",
        "means order within its queue. At END every counter must be zero again.",
        "",
        *table(["bit", "queue"], [(int(e), e.name) for e in isa.Engine]),
        *table(
            ["bits", "field", "range", "meaning"],
            field_rows(isa.Instruction.bit_fields()),
        ),
        "Both fields are in every instruction and are left out of the tables below.",
        "",
    ]
    common = {f.name for f in isa.Instruction.bit_fields()}
    for _, cls in sorted(isa.INSTRUCTIONS.items()):
        own = [f for f in cls.bit_fields() if f.name not in common]
        lines += [
            f"## {cls.mnemonic()}",
            "",
            f"{sentence(cls.__doc__)} Opcode {int(cls.OPCODE):#x}, {cls.WORDS} "
            f"word{'s' if cls.WORDS > 1 else ''}, queue {cls.ENGINE.name}.",
            "",
        ]
        if own:
            lines += table(["bits", "field", "range", "meaning"], field_rows(own))
    lines += ["## Enumerations", ""]
    lines += enum_table(isa.ActType, "Field `act_type`.")
    lines += enum_table(isa.AluMode, "Field `exec_mode` of ALUINIT.")
    lines += enum_table(isa.ElewType, "Field `elew_type` of ELEW.")
    lines += enum_table(isa.PoolType, "Field `pool_type` of POOLINIT.")
    return "\n".join(lines).rstrip() + "\n"
