# SPDX-License-Identifier: Apache-2.0
"""What is cut out of a network, as a file: the pruning specification."""

import dataclasses
import os
import pathlib
from typing import Any

from opendpu.pruning import document
from opendpu.pruning.structure import Dependencies
from opendpu_arch.errors import ModelFormatError

FORMAT = "opendpu pruning specification 1"


@dataclasses.dataclass(frozen=True)
class Plan:
    """Units removed from each group of a network.

    Parameters
    ----------
    fingerprint
        Of which network, see :func:`opendpu.optimize.sensitivity.fingerprint`.
    removed
        Units by group; groups that stay whole are left out.
    objective
        What there was to be less of.
    ratio
        How much of it goes.
    score
        What the user's function said of the network, if it was asked.
    """

    fingerprint: str
    removed: dict[str, list[int]]
    objective: str = "macs"
    ratio: float | None = None
    score: float | None = None
    source: str = ""
    """What the widths were chosen from, as a digest; nothing for a plan that was given."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the specification, complete or not at all."""
        document.save(path, FORMAT, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Plan":
        """Read a specification.

        Raises
        ------
        ModelFormatError
            There is none, or it is damaged.
        """
        file = pathlib.Path(path)
        try:
            return document.load(
                file, FORMAT, cls._parsed, "is no pruning specification",
                "OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )  # fmt: skip
        except OSError as error:
            raise ModelFormatError(
                f"{file} cannot be read: {error.strerror}", code="OPTIMIZER_IO_ERROR"
            ) from None

    @classmethod
    def _parsed(cls, content: dict[str, Any]) -> "Plan":
        plan = cls(**content)
        plan.removed.items()
        return plan

    def check(self, fingerprint: str, dependencies: Dependencies, where: str) -> None:
        """Refuse a plan for another network.

        Raises
        ------
        ModelFormatError
            Layers or groups of the network are others; ``where`` says which plan.
        """
        strange = [name for name in self.removed if name not in dependencies.groups]
        if self.fingerprint != fingerprint or strange:
            raise ModelFormatError(
                f"{where} is for another network: its layers or their groups differ",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
