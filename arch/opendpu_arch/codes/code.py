# SPDX-License-Identifier: Apache-2.0
"""What a code of the guide is, and how tables of them are written."""

import dataclasses
import enum
import inspect
from collections.abc import Iterator


class Severity(enum.StrEnum):
    """What a message with a code means for the run."""

    WARN = "warning"
    """It goes on."""
    ERROR = "error"
    """It ends."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Code:
    """One code of the guide (UG1414 v3.5).

    Parameters
    ----------
    id
        As the guide spells it.
    severity
        Five ids are both a warning and an error, with different meanings.
    table
        Number of the guide's table, ``54`` for Appendix A; ``sources`` for what AMD's quantizer
        gives and the guide does not have in this severity.
    meaning
        When it is given, in our words.
    never
        Why OpenDPU never gives it; empty where it does.
    """

    id: str
    severity: Severity
    table: str
    meaning: str
    never: str = ""

    @property
    def applies(self) -> bool:
        """Whether OpenDPU gives this code."""
        return not self.never


def codes(
    text: str, *, table: str = "54", severity: Severity = Severity.ERROR, never: str = ""
) -> Iterator[Code]:
    """Yield the codes of a text: an id and its meaning a line, all with the same ``never``.

    What is indented more goes on with the line before.
    """
    lines = inspect.cleandoc(text).replace("\n ", " ").splitlines()
    for line in lines:
        name, *meaning = line.split()
        yield Code(id=name, severity=severity, table=table, meaning=" ".join(meaning), never=never)
