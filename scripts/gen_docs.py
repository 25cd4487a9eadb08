# SPDX-License-Identifier: Apache-2.0
"""Write docs/reference from the contract; ``--check`` fails where a page is not up to date."""

import argparse
import ast
import dataclasses
import enum
import inspect
import itertools
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opendpu_arch import isa, legal, regs
from opendpu_arch.bits import BitField
from opendpu_arch.target import ARCHITECTURES, Target, registered

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
FOLDER = REPOSITORY / "docs" / "reference"
NOTE = "<!-- Written by scripts/gen_docs.py from opendpu_arch; `make docs` writes it again. -->"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return a Markdown table, a string a line."""
    cells = [[str(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
        *("| " + " | ".join(row) + " |" for row in cells),
        "",
    ]


def sentence(doc: str | None) -> str:
    """Return the first line of a docstring."""
    return (doc or "").strip().splitlines()[0]


def field_rows(fields: Iterable[BitField]) -> list[tuple[object, ...]]:
    """Return the rows of an instruction's table, in the order of the words, high bits first."""
    ordered = sorted(fields, key=lambda f: (f.word, -f.high))
    return [
        (
            f"w{f.word}[{f.high}:{f.low}]" if f.high != f.low else f"w{f.word}[{f.low}]",
            f"`{f.name}`",
            f"{f.minimum}..{f.maximum}" + (" (less one)" if f.minus_one else ""),
            f.doc,
        )
        for f in ordered
    ]


def enum_table(kind: type[enum.IntEnum], used_by: str) -> list[str]:
    """Return the section of one enumeration."""
    values = table(["value", "name"], [(int(v), f"`{v.name}`") for v in kind])
    return [f"### {kind.__name__}", "", f"{sentence(kind.__doc__)} {used_by}", "", *values]


def isa_page() -> str:
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


def legality_page() -> str:
    """Return docs/reference/legality.md."""
    lines = [
        "# What a target refuses",
        "",
        NOTE,
        "",
        "An instruction that breaks one of these rules stops the DPU with `ILLEGAL_FIELD` in",
        "[STATUS](registers.md), in the functional simulator as in the gateware. Everything that",
        "they let through has a defined result. The functional simulator names the rule's field,",
        "its value and what was allowed.",
        "",
        *table(
            ["rule", "applies to", "what is required", "why"],
            [
                (
                    f"`{rule.name}`",
                    ", ".join(cls.mnemonic() for cls in rule.applies_to),
                    rule.text,
                    sentence(rule.broken.__doc__),
                )
                for rule in legal.RULES
            ],
        ),
    ]
    return "\n".join(lines).rstrip() + "\n"


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


def targets_page() -> str:
    """Return docs/reference/targets.md."""
    targets = [Target.from_name(name) for name in registered()]
    docs = attribute_docs(Target)
    kib = 1024
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
        "PP is the number of output rows, CP the number of input channels and of output channels",
        "that the array works on at once; operations a cycle are two a multiply-accumulate.",
        "",
        "## Registered",
        "",
        *table(
            ["target", "PP", "CP", "ALU PP", "operations a cycle", "fingerprint"],
            [
                (
                    f"`{t.name.rpartition('_')[2]}`",
                    t.pixel_parallel,
                    t.channel_parallel,
                    t.alu_pixel_parallel,
                    t.peak,
                    f"`{t.fingerprint:#x}`",
                )
                for t in targets
            ],
        ),
        "## Banks",
        "",
        "A bank is `bank_depth` words of CP bytes; all addresses wrap at the end of a bank. Bank",
        "ids count up from the image banks.",
        "",
        *table(
            ["target", "image banks", "CONVW", "DWCONVW", "BIAS", "words × bytes", "KiB in all"],
            [
                (
                    f"`{t.name.rpartition('_')[2]}`",
                    f"0..{t.image_banks - 1} ({t.bank_groups} × {t.pixel_parallel})",
                    f"{t.convw_base}..{t.dwconvw_bank - 1}",
                    t.dwconvw_bank,
                    t.bias_bank,
                    f"{t.bank_depth} × {t.channel_parallel}",
                    f"{t.bank_count * t.bank_depth * t.channel_parallel / kib:g}",
                )
                for t in targets
            ],
        ),
        "## Fingerprint",
        "",
        "Bits 63:56 are the DPU type (1), 55:48 the ISA version (1), 47:0 the feature code:",
        "",
        *table(
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
        ),
        "Bits that no option claims are kept; bit 16 is set in every image we know of.",
        "",
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


def registers_page() -> str:
    """Return docs/reference/registers.md."""
    lines = [
        "# Registers",
        "",
        NOTE,
        "",
        "AXI4-Lite, 32-bit data, 12-bit byte addresses. Up to 0x1FF the map is that of AMD's XRT",
        "flow; from 0x200 on it is OpenDPU's own. `rw` read and write, `ro` read only, `w1c` write",
        "one to clear.",
        "",
        *table(
            ["offset", "name", "access", "meaning"],
            [(f"{r.offset:#05x}", f"`{r.name}`", r.access, r.doc) for r in regs.REGISTERS],
        ),
        "## Fault codes",
        "",
        "STATUS [7:0] after a run that ended with an error.",
        "",
        *table(["value", "name"], [(int(f), f"`{f.name}`") for f in regs.Fault]),
    ]
    return "\n".join(lines).rstrip() + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "isa.md": isa_page,
    "legality.md": legality_page,
    "targets.md": targets_page,
    "registers.md": registers_page,
}


def main() -> int:
    """Run the script; returns its exit code."""
    parser = argparse.ArgumentParser(description="Write docs/reference from the contract.")
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    arguments = parser.parse_args()
    stale = []
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not arguments.check:
            temporary = path.with_suffix(".tmp")
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
    verb = "not up to date" if arguments.check else "written"
    for name in stale:
        print(f"docs/reference/{name}: {verb}")
    if arguments.check and stale:
        print("run 'make docs' and commit the result", file=sys.stderr)
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
