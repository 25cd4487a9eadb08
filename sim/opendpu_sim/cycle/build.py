# SPDX-License-Identifier: Apache-2.0
"""The C++ of the cycle model to a shared library; kept in the cache."""

import pathlib
from collections.abc import Mapping

from opendpu_arch import cache, isa, latency
from opendpu_arch.errors import ToolError
from opendpu_sim.rtl import tools
from opendpu_sim.rtl.build import headers

HERE = pathlib.Path(__file__).parent
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fPIC", "-fvisibility=hidden", "-shared", "-Wall")
ENUMS = (isa.AluMode, isa.PoolType, isa.ElewType)
"""Enumerations of the contract that the model needs."""


def library() -> pathlib.Path:
    """Return the library, built where it is not in the cache.

    Raises
    ------
    ToolError
        There is no C++ compiler, or it failed.
    """
    generated = {"isa_fields.h": isa_fields(), "latency.h": latency_constants()}
    try:
        path: pathlib.Path = cache.entry(
            "cycle", f"{key(''.join(generated.values()))}.so", lambda made: _build(generated, made)
        )
    except OSError as error:
        raise ToolError(f"the cycle model cannot be built: {error}") from error
    return path


def key(generated: str) -> str:
    """Return the name in the cache: a digest of sources, headers, compiler and flags.

    ``generated`` is the text of the headers that are no files.
    """
    files = (*sorted(HERE.glob("*.h")), *sorted(HERE.glob("*.cpp")), *headers())
    parts = [(path.name, path.read_bytes()) for path in files]
    digest: str = cache.digest(
        generated, tools.host(), repr(FLAGS), *(part for pair in parts for part in pair)
    )
    return digest


def _build(generated: Mapping[str, str], made: pathlib.Path) -> None:
    for header, text in generated.items():
        (made.parent / header).write_text(text, encoding="utf-8")
    command = [tools.compiler(), *FLAGS, f"-I{made.parent}", f"-I{HERE}"]
    tools.run([*command, *sorted(HERE.glob("*.cpp")), "-o", made], cwd=made.parent)


def latency_constants() -> str:
    """Return a C++ header with the constants of :mod:`opendpu_arch.latency`.

    ``CONV_WRITE`` becomes ``kConvWrite``.
    """
    lines = ["#pragma once", "#include <cstdint>", "namespace opendpu::latency {"]
    for name, value in vars(latency).items():
        if name.isupper() and not name.startswith("_"):
            camel = "".join(word.capitalize() for word in name.split("_"))
            lines.append(f"constexpr uint32_t k{camel} = {value};")
    return "\n".join([*lines, "}  // namespace opendpu::latency", ""])


def isa_fields() -> str:
    """Return a C++ header with the fields of :mod:`opendpu_arch.isa`, raw as they are encoded.

    Every instruction is a struct with its opcode and a function a field, which takes the words.
    """
    lines = ["#pragma once", "#include <cstdint>", "namespace opendpu::isa {"]
    for cls in isa.INSTRUCTIONS.values():
        lines.append(f"struct {cls.__name__} {{")
        lines.append(f"  static constexpr uint8_t kOpcode = {cls.OPCODE};")
        for f in cls.bit_fields():
            mask = (1 << (f.high - f.low + 1)) - 1
            lines.append(
                f"  static uint32_t {f.name}(const uint32_t* w) "
                f"{{ return w[{f.word}] >> {f.low} & {mask:#x}u; }}"
            )
        lines.append("};")
    for enum in ENUMS:
        members = ", ".join(f"{member.name} = {member.value}" for member in enum)
        lines.append(f"enum class {enum.__name__} : uint32_t {{ {members} }};")
    known = {int(opcode): cls for opcode, cls in isa.INSTRUCTIONS.items()}
    words = ", ".join(str(known[n].WORDS if n in known else 0) for n in range(16))
    engines = ", ".join(str(int(known[n].ENGINE) if n in known else 0) for n in range(16))
    lines += [
        f"constexpr uint8_t kWords[16] = {{{words}}};",
        f"constexpr uint8_t kEngine[16] = {{{engines}}};",
        "}  // namespace opendpu::isa",
        "",
    ]
    return "\n".join(lines)
