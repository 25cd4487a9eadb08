# SPDX-License-Identifier: Apache-2.0
"""What was added to a network: text that is kept beside it."""

import dataclasses
import json
from collections.abc import Mapping

from opendpu_arch.errors import ModelFormatError


@dataclasses.dataclass(frozen=True)
class ExpandingSpec:
    """New channels of a network.

    Parameters
    ----------
    channel_divisible
        What numbers of channels were to be divisible by.
    added
        New channels by the first layer of a group.
    kept
        Why other layers have the channels that they had.
    """

    channel_divisible: int
    added: Mapping[str, int]
    kept: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def serialize(self) -> str:
        """Return the text for a file."""
        return json.dumps(dataclasses.asdict(self), indent=1)

    @classmethod
    def from_string(cls, text: str) -> "ExpandingSpec":
        """Read what :meth:`serialize` wrote.

        Raises
        ------
        ModelFormatError
            The text is none of these.
        """
        try:
            data = json.loads(text)
            added = {str(name): int(count) for name, count in data["added"].items()}
            return cls(int(data["channel_divisible"]), added, dict(data["kept"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelFormatError(
                f"{text[:40]!r} is no expanding specification: {error}",
                code="OPTIMIZER_IO_ERROR",
            ) from error
