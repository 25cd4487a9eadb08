# SPDX-License-Identifier: Apache-2.0
"""DPUCZDX8G ISA1: the instructions, written once.

A program is little-endian 32-bit words. Word 0 of every instruction holds the opcode [31:28],
``dpdon`` [27:24] and ``dpdby`` [23:20]; the rest is the instruction's own.
"""

from opendpu_arch.isa.alu import Alu, AluInit, DptWise, DwInit, Pool, PoolInit
from opendpu_arch.isa.codes import (
    LOAD_CONSTANT,
    ActType,
    AluMode,
    ElewType,
    Engine,
    Opcode,
    PoolType,
)
from opendpu_arch.isa.conv import Conv, ConvInit
from opendpu_arch.isa.eltwise import Elew, ElewInit
from opendpu_arch.isa.instruction import Instruction
from opendpu_arch.isa.program import INSTRUCTIONS, decode, encode, iter_decode
from opendpu_arch.isa.transfers import End, Load, Save

__all__ = [
    "INSTRUCTIONS",
    "LOAD_CONSTANT",
    "ActType",
    "Alu",
    "AluInit",
    "AluMode",
    "Conv",
    "ConvInit",
    "DptWise",
    "DwInit",
    "Elew",
    "ElewInit",
    "ElewType",
    "End",
    "Engine",
    "Instruction",
    "Load",
    "Opcode",
    "Pool",
    "PoolInit",
    "PoolType",
    "Save",
    "decode",
    "encode",
    "iter_decode",
]
