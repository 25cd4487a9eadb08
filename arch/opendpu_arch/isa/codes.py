# SPDX-License-Identifier: Apache-2.0
"""Values of instruction fields: opcodes, engines, operations, activations."""

import enum


class Opcode(enum.IntEnum):
    """Bits [31:28] of word 0."""

    LOAD = 0x0
    ALUINIT = 0x1
    ALU = 0x2
    SAVE = 0x4
    POOLINIT = 0x6
    END = 0x7
    CONV = 0x8
    CONVINIT = 0x9
    DPTWISE = 0xA
    DWINIT = 0xB
    POOL = 0xC
    ELEWINIT = 0xD
    ELEW = 0xE


class Engine(enum.IntEnum):
    """The four in-order queues; the value is the bit in ``dpdon`` and ``dpdby``."""

    LOAD = 0
    SAVE = 1
    CONV = 2
    MISC = 3


class ActType(enum.IntEnum):
    """Activation applied before rounding."""

    NONE = 0
    RELU = 1
    PRELU = 2
    LEAKYRELU = 3
    RELU6 = 4
    HSIGMOID = 5
    HSWISH = 6


LOAD_CONSTANT = 7
"""``broadcast`` of a LOAD that writes ``const_value``; no other value has an effect."""


class AluMode(enum.IntEnum):
    """Values of ALUINIT ``exec_mode``."""

    DWCV = 0
    PRELU = 1
    AVEPOOL = 2
    MAXPOOL = 3
    LEAKYRELU = 4
    MAXREDUCE = 5
    DWCVB0 = 6
    HSIGMOID = 7
    DWCVW16B0 = 8


class ElewType(enum.IntEnum):
    """Values of ELEW ``elew_type``."""

    ADD = 0
    MULT = 1


class PoolType(enum.IntEnum):
    """Values of POOLINIT ``pool_type``."""

    MAX = 0
    AVERAGE = 1
    MAX_REDUCE = 2
