# SPDX-License-Identifier: Apache-2.0
"""One small fault of the kind that real ones have, and how it is put into a copy of the tree."""

import dataclasses
import pathlib

from opendpu_arch.errors import ToolError

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
"""The work tree this file belongs to; nothing here ever writes to it."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A text that stands once in a file, and the fault that takes its place."""

    name: str
    file: str
    """Path in the work tree."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Files of the tests that should find it, the quickest first."""

    def occurrences(self, tree: pathlib.Path = REPOSITORY) -> int:
        """Return how often the text stands in the file; any other number than one is stale."""
        path = tree / self.file
        return path.read_text(encoding="utf-8").count(self.old) if path.is_file() else 0

    def plant(self, tree: pathlib.Path) -> None:
        """Put the fault into the copy at ``tree``.

        Raises
        ------
        ToolError
            ``tree`` is the work tree itself or inside it, or the mutant is stale.
        """
        if tree.resolve().is_relative_to(REPOSITORY):
            raise ToolError(
                f"mutant {self.name} was to be put into {tree}, but only copies of the work tree "
                f"{REPOSITORY} may be changed"
            )
        if self.occurrences(tree) != 1:
            raise ToolError(
                f"mutant {self.name} is stale: {self.file} has its text "
                f"{self.occurrences(tree)} times, but must have it once: {self.old!r}"
            )
        path = tree / self.file
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


def mutants(file: str, tests: str, *faults: tuple[str, str, str]) -> tuple[Mutant, ...]:
    """Return the mutants of a file: name, old and new text of each.

    ``tests`` are paths below ``tests/``, separated by blanks.
    """
    likely = tuple(f"tests/{path}" for path in tests.split())
    return tuple(Mutant(name, file, old, new, likely) for name, old, new in faults)
