# SPDX-License-Identifier: Apache-2.0
"""What emits a layer of some kind."""

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from opendpu.compiler.emitter.cascade_tile import CascadeTile
from opendpu.compiler.emitter.recorder import Recorder
from opendpu.compiler.plan import LayerPlan


class StripeEmitter(Protocol):
    """A layer of a cascade, in one tile of columns."""

    def emit(self, row: int, rows: int) -> None:
        """Append the commands that make ``rows`` rows of the result."""


class CascadeEmitter(Protocol):
    """A layer of a cascade, whose constants are loaded once for all tiles."""

    def stripes(self, tile: CascadeTile) -> StripeEmitter:
        """Return the layer in one tile of columns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerEmitter:
    """The emission of one layer kind; the last argument is always the layer."""

    alone: Callable[[Recorder, LayerPlan, Any], None]
    """Appends the commands of a layer that runs by itself."""
    in_cascade: Callable[[Recorder, LayerPlan, Any], CascadeEmitter] | None = None
    """Returns the layer as part of a cascade; none where it is never one."""
