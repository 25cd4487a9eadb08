# SPDX-License-Identifier: Apache-2.0
"""What every engine looks like to the dispatcher."""

from amaranth.lib.wiring import In, Out

from opendpu_hw.shapes import InstructionStream, fault_shape


def engine_members(*, faults=False):
    """Return the members every engine has.

    ``insn`` brings instructions whose tokens are there; ``done`` pulses once an instruction, in
    order, when all its effects are visible; ``busy`` is high while an accepted instruction is
    unfinished; ``active`` in cycles with a useful step. While ``abort`` is high the engine drops
    its work, completes what it has on the bus, and then raises ``idle``. With ``faults``, what went
    wrong is at ``fault`` until then.
    """
    return {
        "insn": In(InstructionStream),
        "done": Out(1),
        "busy": Out(1),
        "active": Out(1),
        "abort": In(1),
        "idle": Out(1),
        **({"fault": Out(fault_shape)} if faults else {}),
    }
