# SPDX-License-Identifier: Apache-2.0
"""docs/reference/registers.md: what the host sees."""

from opendpu_arch import regs
from opendpu_arch.extensions import Extension
from reference_pages.markdown import NOTE, table


def page() -> str:
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
        "## Extensions",
        "",
        "Bits of `EXTENSIONS`, which plain targets do not have; there it reads zero.",
        "",
        *table(
            ["bit", "extension", "meaning"],
            [(int(e), f"`{e.label}`", e.meaning) for e in Extension],
        ),
        "## Fault codes",
        "",
        "STATUS [7:0] after a run that ended with an error.",
        "",
        *table(["value", "name"], [(int(f), f"`{f.name}`") for f in regs.Fault]),
    ]
    return "\n".join(lines).rstrip() + "\n"
