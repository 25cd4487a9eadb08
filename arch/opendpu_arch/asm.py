# SPDX-License-Identifier: Apache-2.0
"""Assembly text: one instruction a line, ``MNEMONIC field=value …``; ``#`` starts a comment."""

from collections.abc import Iterable

from opendpu_arch import isa
from opendpu_arch.errors import DecodeError, EncodingError

_BY_NAME = {cls.mnemonic(): cls for cls in isa.INSTRUCTIONS.values()}


def format_instruction(instruction: isa.Instruction) -> str:
    """Return one line of text; fields in the order of the ISA page.

    Fields of extensions are left out where they are zero.
    """
    parts = [instruction.mnemonic()]
    for f in instruction.bit_fields():
        value = getattr(instruction, f.name)
        if value or not f.extension:
            parts.append(f"{f.name}={value}")
    if any(instruction.reserved):
        parts.append("reserved=" + ":".join(f"{w:#x}" for w in instruction.reserved))
    return " ".join(parts)


def disassemble(program: bytes | Iterable[isa.Instruction]) -> str:
    """Return the text of machine code or of decoded instructions."""
    instructions = isa.iter_decode(program) if isinstance(program, bytes) else program
    return "".join(format_instruction(i) + "\n" for i in instructions)


def parse_instruction(line: str, number: int = 1) -> isa.Instruction:
    """Return the instruction that one line of text describes.

    Raises
    ------
    DecodeError
        The mnemonic or a field is unknown or given twice, or a value is not an integer.
    EncodingError
        A value does not fit its field.
    """
    name, *pairs = line.split()
    if name not in _BY_NAME:
        raise DecodeError(
            f"line {number}: unknown mnemonic {name!r}, "
            f"must be one of {', '.join(sorted(_BY_NAME))}"
        )
    cls = _BY_NAME[name]
    fields = {f.name for f in cls.bit_fields()}
    values: dict[str, int] = {}
    reserved: tuple[int, ...] = ()
    for pair in pairs:
        key, equals, text = pair.partition("=")
        try:
            if key == "reserved":
                reserved = tuple(int(word, 0) for word in text.split(":"))
                continue
            value = int(text, 0)
        except ValueError:
            equals, value = "", 0
        if not equals:
            raise DecodeError(f"line {number}: {pair!r} is not field=integer")
        if key not in fields:
            raise DecodeError(
                f"line {number}: {name} has no field {key!r}, only {', '.join(sorted(fields))}"
            )
        if key in values:
            raise DecodeError(f"line {number}: {name} has field {key!r} twice")
        values[key] = value
    instruction = cls(reserved=reserved, **values)
    try:
        instruction.encode()
    except EncodingError as error:
        raise EncodingError(f"line {number}: {error}") from None
    return instruction


def parse(text: str) -> list[isa.Instruction]:
    """Return the instructions of assembly text."""
    program = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        if line:
            program.append(parse_instruction(line, number))
    return program


def assemble(text: str) -> bytes:
    """Return the machine code of assembly text."""
    return isa.encode(parse(text))
