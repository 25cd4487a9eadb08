# SPDX-License-Identifier: Apache-2.0
"""The memory segments of jobs: filled from arrays, and seen as arrays."""

from collections.abc import Sequence

import numpy as np

from opendpu.runtime.arrays import Array, to_tensor
from opendpu.runtime.device import Segment
from opendpu.runtime.program import Port, Program


class SegmentLayout:
    """Makes the segments of a program's jobs; constants are shared by all of them."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._constants = {
            register: np.frombuffer(value, np.uint8)
            for register, value in program.constants.items()
        }
        ports = program.inputs
        alone = [port for port in ports if sum(o.reg_id == port.reg_id for o in ports) == 1]
        self._whole = {port for port in alone if self._fills(port)}
        self.given = frozenset({*self._constants, *(port.reg_id for port in ports)})
        """Registers whose segments hold something before the program runs."""
        self.wanted = frozenset(port.reg_id for port in program.outputs)
        """Registers whose segments are read afterwards."""

    def _fills(self, port: Port) -> bool:
        """Tell whether a port is all of its segment, byte after byte as in an array."""
        size = self._program.sizes.get(port.reg_id)
        return port.is_dense and port.address == 0 and port.extent == size

    def filled(self, arrays: Sequence[Array]) -> dict[int, Segment]:
        """Return the segments of inputs, with copies of ``arrays``: one a port, checked."""
        segments: dict[int, Segment] = {}
        for array, port in zip(arrays, self._program.inputs, strict=True):
            values = to_tensor(array, port.tensor)
            if port in self._whole:
                copy = values.copy() if values is array else values
                segments[port.reg_id] = copy.reshape(-1).view(np.uint8)
                continue
            segment = segments.get(port.reg_id)
            if segment is None:
                size = self._program.sizes[port.reg_id]
                segment = segments[port.reg_id] = np.zeros(size, np.uint8)
            port.view(segment)[...] = values.reshape(port.dims)
        return segments

    def lent(self, arrays: Sequence[Array]) -> dict[int, Segment]:
        """Return the segments of inputs, on the memory of ``arrays`` where that can be.

        It can where an array is a whole segment that the program does not write.
        """
        ports = self._program.inputs
        places = {
            port.reg_id: array.reshape(-1).view(np.uint8)
            for array, port in zip(arrays, ports, strict=True)
            if port in self._whole
            and port.reg_id not in self._program.written
            and array.dtype == port.dtype
            and array.flags.c_contiguous
        }
        if len(places) == len(ports):
            return places
        return {**self.filled(arrays), **places}

    def complete(self, segments: dict[int, Segment]) -> dict[int, Segment]:
        """Return all segments of a job: those given, constants, zeros for the rest."""
        made = {**self._constants, **segments}
        for register, size in self._program.sizes.items():
            if register not in made:
                made[register] = np.zeros(size, np.uint8)
        return made
