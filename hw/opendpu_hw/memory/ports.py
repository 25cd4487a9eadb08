# SPDX-License-Identifier: Apache-2.0
"""Signatures of the ports between engines and on-chip memory, seen from the engine."""

from amaranth.hdl import unsigned
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import ceil_log2

from opendpu_arch.extensions import Extension


def _address(target):
    return ceil_log2(target.bank_depth)


def _word(target):
    return 8 * target.channel_parallel


class BankWrite(Signature):
    """One word a transfer into any bank: image, CONVW, DWCONVW or BIAS (LOAD)."""

    def __init__(self, target):
        super().__init__({
            "valid": Out(1), "ready": In(1),
            "bank_id": Out(6), "addr": Out(_address(target)), "data": Out(_word(target))})


class BankRead(Signature):
    """One word a transfer from an image bank (SAVE).

    ``data`` comes :data:`opendpu_arch.latency.BANK_READ` cycles later.
    """

    def __init__(self, target):
        super().__init__({
            "valid": Out(1), "ready": In(1),
            "bank_id": Out(6), "addr": Out(_address(target)), "data": In(_word(target))})


class RowRead(Signature):
    """One word from each masked bank of a group (MISC).

    ``data`` comes :data:`opendpu_arch.latency.BANK_READ` cycles later.
    ``addr`` and ``data`` are indexed by bank in the group, not by row.
    """

    def __init__(self, target):
        banks = target.pixel_parallel
        super().__init__({
            "valid": Out(1), "ready": In(1), "group": Out(2), "mask": Out(banks),
            "addr": Out(data.ArrayLayout(unsigned(_address(target)), banks)),
            "data": In(data.ArrayLayout(unsigned(_word(target)), banks))})


class RowWrite(Signature):
    """One word into each masked bank of a group (MISC)."""

    def __init__(self, target):
        banks = target.pixel_parallel
        super().__init__({
            "valid": Out(1), "ready": In(1), "group": Out(2), "mask": Out(banks),
            "addr": Out(data.ArrayLayout(unsigned(_address(target)), banks)),
            "data": Out(data.ArrayLayout(unsigned(_word(target)), banks))})


class ConvRead(Signature):
    """Image and weight words for CONV, never refused.

    Data come :data:`opendpu_arch.latency.BANK_READ` cycles after ``en``.
    ``addr`` and ``data`` are indexed by bank in the group; with ``turn``, ``data`` of a bank is the
    word of the next one, the last one's that of the first. Every CONVW bank reads ``weight_addr``.
    """

    def __init__(self, target):
        banks, lanes = target.pixel_parallel, target.output_channel_parallel
        super().__init__({
            "en": Out(1), "group": Out(2), "turn": Out(1),
            "addr": Out(data.ArrayLayout(unsigned(_address(target)), banks)),
            "data": In(data.ArrayLayout(unsigned(_word(target)), banks)),
            "weight_addr": Out(_address(target)),
            "weights": In(data.ArrayLayout(unsigned(_word(target)), lanes))})


class ConvWrite(Signature):
    """One word into each masked bank of a group, never refused (CONV).

    A bank with ``far`` gets ``data`` of the one that is half a group away.
    """

    def __init__(self, target):
        banks = target.pixel_parallel
        super().__init__({
            "group": Out(2), "mask": Out(banks), "far": Out(banks),
            "addr": Out(data.ArrayLayout(unsigned(_address(target)), banks)),
            "data": Out(data.ArrayLayout(unsigned(_word(target)), banks))})


class BiasRead(Signature):
    """One word from BIAS; ``data`` one cycle after valid and ready.

    With the extension ``channel``, ``shifts`` is the word of SHIFT at the same address.
    """

    def __init__(self, target):
        word = _word(target)
        super().__init__({
            "valid": Out(1), "ready": In(1),
            "addr": Out(_address(target)), "data": In(word),
            **({"shifts": In(word)} if Extension.CHANNEL in target.extensions else {})})


class ParameterRead(Signature):
    """One word from DWCONVW; ``data`` one cycle after valid and ready."""

    def __init__(self, target):
        super().__init__({
            "valid": Out(1), "ready": In(1),
            "addr": Out(_address(target)), "data": In(_word(target))})
