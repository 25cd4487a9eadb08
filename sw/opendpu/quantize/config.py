# SPDX-License-Identifier: Apache-2.0
"""The quantizer's configuration (the engine's own file replaces this one)."""

import dataclasses

from opendpu_arch.errors import UnsupportedError


def check_choice(what: str, given: str, allowed: tuple[str, ...]) -> None:
    """Raise UnsupportedError if a word is none of those allowed."""
    if given not in allowed:
        raise UnsupportedError(f"{what} {given!r} is unknown; choose one of {', '.join(allowed)}")


@dataclasses.dataclass(frozen=True)
class FinetuneConfig:
    """Fast finetuning, see the engine's own file."""

    method: str = "adaquant"
    iterations: int = 1000
    learning_rate: float | None = None
    batch: int = 32
    samples: int | None = None
    early_stop: bool = True

    def __post_init__(self) -> None:
        """Check every value."""
        check_choice("finetuning method", self.method, ("adaquant", "adaround"))
