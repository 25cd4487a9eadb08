# SPDX-License-Identifier: Apache-2.0
"""What a board device needs of the way to its DPU."""

from typing import Protocol

import numpy as np
import numpy.typing as npt

from opendpu.runtime.driver import Registers

Bytes = npt.NDArray[np.uint8]


class SharedMemory(Protocol):
    """Contiguous memory that host and DPU both reach."""

    address: int
    """Where it starts for the DPU: a multiple of 4096."""
    size: int
    """Bytes."""

    def store(self, offset: int, data: Bytes) -> None:
        """Write bytes so that the DPU sees them."""
        ...

    def load(self, offset: int, data: Bytes) -> None:
        """Fill ``data`` with bytes as the DPU has left them."""
        ...


class Transport(Registers, Protocol):
    """Registers, memory and interrupt of one DPU."""

    @property
    def memory(self) -> SharedMemory:
        """Memory of host and DPU."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait for the interrupt; return whether it came in time."""
        ...

    def close(self) -> None:
        """Free what the transport holds."""
        ...
