# SPDX-License-Identifier: Apache-2.0
"""What a target refuses: the rules behind ILLEGAL_FIELD, one named predicate each.

The functional simulator and the gateware refuse exactly these, so every rule is cheap in hardware:
comparisons of fields, and one product of small numbers. Everything that they let through has a
defined result. There are two exceptions: a plain target's gateware ignores the fields of
extensions, which ISA1 leaves free; only the functional simulator refuses them there. And the
functional simulator refuses to go over many times more words than there are
(``opendpu_sim.model.walk``).

A rule over an INIT's own fields is checked at the INIT; what needs both is checked at the
instruction that uses it. ``docs/reference`` lists :data:`RULES`.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from opendpu_arch import isa, table
from opendpu_arch.extensions import Extension
from opendpu_arch.isa import ActType, AluMode, ElewType, PoolType
from opendpu_arch.numerics import MAX_SHIFT_BIAS as MAX_SHIFT_BIAS
from opendpu_arch.target import Target

MAX_MEAN_CHANNEL = 64
"""Bytes of a pixel that LOAD can subtract a mean from."""
ADDRESS_GROUPS = 4
"""bank_addr_in, bank_addr_in_1, _2, _3."""
DEPTHWISE_MODES = (AluMode.DWCV, AluMode.DWCVB0, AluMode.DWCVW16B0)
SCALED_MODES = (AluMode.DWCV, AluMode.AVEPOOL, AluMode.MAXPOOL)
POINTWISE_MODES = (AluMode.PRELU, AluMode.LEAKYRELU, AluMode.HSIGMOID)

Init = isa.Instruction | Sequence[isa.ElewInit] | None
Broken = Callable[[Any, Target, Any], Iterator[str]]


@dataclasses.dataclass(frozen=True)
class Rule:
    """One reason to refuse an instruction."""

    name: str
    text: str
    """What is required, for the reference pages."""
    applies_to: tuple[type[isa.Instruction], ...]
    broken: Broken
    """Yields a message for every violation; arguments: instruction, target, init."""
    reads: tuple[str, ...] = ()
    """Fields that it looks at, as far as the instruction has them."""
    of_init: tuple[str, ...] = ()
    """Those of the INIT in force, or of the ELEWINITs of an ELEW."""


RULES: list[Rule] = []
"""Every rule, in the order they are reported."""


def _rule(
    text: str, *applies_to: type[isa.Instruction], reads: tuple[str, ...] = (),
    of_init: tuple[str, ...] = (),
) -> Callable[[Broken], Broken]:  # fmt: skip
    def register(broken: Broken) -> Broken:
        name = broken.__name__.lstrip("_")
        RULES.append(Rule(name, text, applies_to, broken, reads, of_init))
        return broken

    return register


def _range(field: str, value: int, low: int, high: int, what: str) -> Iterator[str]:
    if not low <= value <= high:
        yield f"{field} is {value}, but must be in {low}..{high} ({what})"


def _one_of(field: str, value: int, allowed: Sequence[int], what: str) -> Iterator[str]:
    if value not in allowed:
        names = ", ".join(f"{getattr(v, 'name', v)}={int(v)}" for v in allowed)
        yield f"{field} is {value}, but must be one of {names} ({what})"


@_rule(
    "CONV, ALU, POOL and DPTWISE need their INIT somewhere before them.",
    isa.Conv,
    isa.Alu,
    isa.Pool,
    isa.DptWise,
)
def _init_missing(i: isa.Instruction, target: Target, init: Any) -> Iterator[str]:
    """Refuse an instruction without its INIT: there would be no kernel and no shifts."""
    if init is None:
        needed = {isa.Conv: "CONVINIT", isa.Alu: "ALUINIT", isa.Pool: "POOLINIT"}
        yield f"no {needed.get(type(i), 'DWINIT')} before it"


@_rule("LOAD writes any bank of the target.", isa.Load, reads=("bank_id",))
def _load_bank(i: isa.Load, target: Target, init: Any) -> Iterator[str]:
    """Bank ids count up to BIAS (AMD's simulator checks the same), or to those of extensions."""
    what = "banks"
    lacking = [e for e in Extension if e not in target.extensions]
    if 0 <= i.bank_id - target.bank_count < sum(e.banks for e in lacking):
        labels = " or ".join(f"'{e.label}'" for e in lacking)
        what += f"; more with the extension {labels}"
    yield from _range("bank_id", i.bank_id, 0, target.bank_count - 1, what)


@_rule("SAVE reads an image bank.", isa.Save, reads=("bank_id",))
def _save_bank(i: isa.Save, target: Target, init: Any) -> Iterator[str]:
    """Weight and bias banks have no way out (the target's save-in list)."""
    yield from _range("bank_id", i.bank_id, 0, target.image_banks - 1, "image banks")


@_rule(
    "The engines read image banks.",
    isa.Conv,
    isa.Alu,
    isa.Pool,
    isa.DptWise,
    isa.ElewInit,
    reads=("bank_id_in",),
)
def _bank_in(i: Any, target: Target, init: Any) -> Iterator[str]:
    """The target's input bank lists hold the image groups only."""
    yield from _range("bank_id_in", i.bank_id_in, 0, target.image_banks - 1, "image banks")


@_rule(
    "The engines write image banks.",
    isa.Conv,
    isa.Alu,
    isa.Pool,
    isa.DptWise,
    isa.Elew,
    reads=("bank_id_out",),
)
def _bank_out(i: Any, target: Target, init: Any) -> Iterator[str]:
    """The target's output bank lists hold the image groups only."""
    yield from _range("bank_id_out", i.bank_id_out, 0, target.image_banks - 1, "image banks")


@_rule(
    "valid_pixel_parallel of CONV, POOL and DPTWISE is at most the pixel parallel.",
    isa.ConvInit,
    isa.PoolInit,
    isa.DwInit,
    reads=("valid_pixel_parallel",),
)
def _rows(i: Any, target: Target, init: Any) -> Iterator[str]:
    """There are no more rows of multipliers than that, nor banks to write them to."""
    yield from _range(
        "valid_pixel_parallel", i.valid_pixel_parallel, 1, target.pixel_parallel, "pixel parallel"
    )


@_rule(
    "valid_pixel_parallel of ALU and ELEW is at most the ALU's pixel parallel.",
    isa.Alu,
    isa.Elew,
    reads=("valid_pixel_parallel",),
)
def _alu_rows(i: Any, target: Target, init: Any) -> Iterator[str]:
    """AMD's simulator checks the same."""
    yield from _range(
        "valid_pixel_parallel",
        i.valid_pixel_parallel,
        1,
        target.alu_pixel_parallel,
        "ALU pixel parallel",
    )


@_rule(
    "CONV has the activations NONE, RELU, RELU6, and LEAKYRELU where the target has it.",
    isa.ConvInit,
    reads=("act_type",),
)
def _conv_act(i: isa.ConvInit, target: Target, init: Any) -> Iterator[str]:
    """CONVINIT has no parameter fields for the others; LEAKYRELU is a target option."""
    allowed = [ActType.NONE, ActType.RELU, ActType.RELU6]
    if target.conv_leaky_relu:
        allowed.insert(2, ActType.LEAKYRELU)
    yield from _one_of("act_type", i.act_type, allowed, f"CONV of {target.name}")


@_rule(
    "ALU depthwise modes and DPTWISE have NONE, RELU, RELU6, and LEAKYRELU where the target "
    "has it; other ALU modes ignore act_type.",
    isa.AluInit,
    isa.DptWise,
    reads=("act_type", "exec_mode"),
)
def _alu_act(i: Any, target: Target, init: Any) -> Iterator[str]:
    """LEAKYRELU is a target option; AMD's simulator applies act_type in depthwise modes only."""
    if isinstance(i, isa.AluInit) and i.exec_mode not in DEPTHWISE_MODES:
        return
    allowed = [ActType.NONE, ActType.RELU, ActType.RELU6]
    if target.alu_leaky_relu:
        allowed.insert(2, ActType.LEAKYRELU)
    yield from _one_of("act_type", i.act_type, allowed, f"{i.mnemonic()} of {target.name}")


@_rule("exec_mode is 0..8.", isa.AluInit, reads=("exec_mode",))
def _exec_mode(i: isa.AluInit, target: Target, init: Any) -> Iterator[str]:
    """Other values are not ISA1."""
    yield from _one_of("exec_mode", i.exec_mode, tuple(AluMode), "ALU modes")


@_rule("pool_type is 0, 1 or 2 (max, average, max-reduce).", isa.PoolInit, reads=("pool_type",))
def _pool_type(i: isa.PoolInit, target: Target, init: Any) -> Iterator[str]:
    """3 is not defined."""
    yield from _one_of("pool_type", i.pool_type, tuple(PoolType), "POOL types")


@_rule(
    "POOL average with kernel_w 1, 2, 4 or 8 has kernel_h 1, 2, 4 or 8.",
    isa.PoolInit,
    reads=("pool_type", "kernel_h", "kernel_w"),
)
def _pool_average(i: isa.PoolInit, target: Target, init: Any) -> Iterator[str]:
    """It divides by kernel_h * kernel_w, which is a shift only then."""
    if i.pool_type == PoolType.AVERAGE and i.kernel_w in (1, 2, 4, 8):
        yield from _one_of(
            "kernel_h", i.kernel_h, (1, 2, 4, 8), f"average with kernel_w {i.kernel_w}"
        )


@_rule("elew_type is 0 (add) or 1 (multiply).", isa.Elew, reads=("elew_type",))
def _elew_type(i: isa.Elew, target: Target, init: Any) -> Iterator[str]:
    """Other values are not ISA1."""
    yield from _one_of("elew_type", i.elew_type, tuple(ElewType), "ELEW types")


@_rule("shift_bias is at most 20.", isa.ConvInit, isa.AluInit, isa.DwInit, reads=("shift_bias",))
def _shift_bias(i: Any, target: Target, init: Any) -> Iterator[str]:
    """AMD's simulator checks the same, in every ALU mode."""
    yield from _range("shift_bias", i.shift_bias, 0, MAX_SHIFT_BIAS, "bias shift")


@_rule(
    "stride_offset_in is less than stride_h.",
    isa.ConvInit,
    isa.AluInit,
    isa.DwInit,
    isa.PoolInit,
    reads=("pool_type", "stride_offset_in", "stride_h"),
)
def _stride_offset_in(i: Any, target: Target, init: Any) -> Iterator[str]:
    """It counts rows inside one bank, which holds stride_h of them (AMD checks the same)."""
    if isinstance(i, isa.PoolInit) and i.pool_type == PoolType.MAX_REDUCE:
        return
    yield from _range(
        "stride_offset_in", i.stride_offset_in, 0, i.stride_h - 1, "less than stride_h"
    )


@_rule(
    "POOL max-reduce has stride_offset_in less than downsample_kernel_h.",
    isa.Pool,
    reads=("downsample_kernel_h",),
    of_init=("pool_type", "stride_offset_in"),
)
def _downsample_offset(i: isa.Pool, target: Target, init: Any) -> Iterator[str]:
    """Its stride is the down-sampling kernel."""
    if isinstance(init, isa.PoolInit) and init.pool_type == PoolType.MAX_REDUCE:
        yield from _range(
            "stride_offset_in",
            init.stride_offset_in,
            0,
            i.downsample_kernel_h - 1,
            "less than downsample_kernel_h",
        )


@_rule(
    "stride_offset_out is less than stride_out.",
    isa.ConvInit,
    isa.AluInit,
    isa.DwInit,
    isa.PoolInit,
    reads=("stride_offset_out", "stride_out"),
)
def _stride_offset_out(i: Any, target: Target, init: Any) -> Iterator[str]:
    """It counts rows inside one bank, which holds stride_out of them; nobody writes more."""
    yield from _range(
        "stride_offset_out", i.stride_offset_out, 0, i.stride_out - 1, "less than stride_out"
    )


@_rule(
    "mode_avg needs the target's load_mean, and channel at most 64.",
    isa.Load,
    reads=("mode_avg", "channel"),
)
def _load_mean(i: isa.Load, target: Target, init: Any) -> Iterator[str]:
    """Subtracting a mean is a target option; 64 bytes of mean (BIAS bank, word 0) are kept."""
    if i.mode_avg and not target.load_mean:
        yield f"mode_avg is {i.mode_avg}, but must be 0 ({target.name} has no load_mean)"
    elif i.mode_avg:
        yield from _range("channel", i.channel, 1, MAX_MEAN_CHANNEL, "bytes with mode_avg")


@_rule("argmax needs the target's save_argmax.", isa.Save, reads=("argmax",))
def _save_argmax(i: isa.Save, target: Target, init: Any) -> Iterator[str]:
    """The comparators are a target option."""
    if i.argmax & 2 and not target.save_argmax:
        yield f"argmax is {i.argmax}, but must be 0 or 1 ({target.name} has no save_argmax)"


@_rule(
    "ALU PRELU, LEAKYRELU and HSIGMOID have kernel and stride 1.",
    isa.AluInit,
    reads=("exec_mode", "kernel_h", "kernel_w", "stride_h", "stride_w"),
)
def _pointwise(i: isa.AluInit, target: Target, init: Any) -> Iterator[str]:
    """They take one pixel (AMD's simulator checks the same)."""
    if i.exec_mode in POINTWISE_MODES:
        for field in ("kernel_h", "kernel_w", "stride_h", "stride_w"):
            yield from _range(field, getattr(i, field), 1, 1, AluMode(i.exec_mode).name)


@_rule("kernel_d is 1.", isa.Alu, reads=("kernel_d",))
def _kernel_d(i: isa.Alu, target: Target, init: Any) -> Iterator[str]:
    """No compiler is known to use depth, and AMD's simulator pools it wrongly."""
    yield from _range("kernel_d", i.kernel_d, 1, 1, "kernel depth")


@_rule(
    "The input rows of CONV, ALU, POOL and DPTWISE fit in four address groups.",
    isa.Conv,
    isa.Alu,
    isa.Pool,
    isa.DptWise,
    reads=("bank_id_in", "valid_pixel_parallel", "downsample_kernel_h"),
    of_init=("kernel_h", "stride_h", "valid_pixel_parallel", "pool_type", "stride_offset_in"),
)
def _address_groups(i: Any, target: Target, init: Any) -> Iterator[str]:
    """Let n = 4*PP + 1 - vpp - bank_id_in mod PP; then stride_offset_in + kernel_h <= n*stride_h.

    Equal to AMD's check that the last input row's bank, counted from the start of its group, is
    below 4*PP, without a division.
    """
    if init is None:
        return
    kernel_h, stride_h = init.kernel_h, init.stride_h
    rows = i.valid_pixel_parallel if isinstance(i, isa.Alu) else init.valid_pixel_parallel
    if isinstance(init, isa.PoolInit) and init.pool_type == PoolType.MAX_REDUCE:
        kernel_h = stride_h = i.downsample_kernel_h
    parallel = target.pixel_parallel
    banks = ADDRESS_GROUPS * parallel + 1 - rows - i.bank_id_in % parallel
    if init.stride_offset_in + kernel_h > banks * stride_h:
        last = (
            i.bank_id_in % parallel + rows - 1 - (-(init.stride_offset_in + kernel_h) // stride_h)
        )
        yield (
            f"{rows} output rows with kernel_h {kernel_h}, stride_h {stride_h} need "
            f"{-(-last // parallel)} address groups, but must need at most {ADDRESS_GROUPS}"
        )


@_rule("ELEWINIT ids count up from 0 before each ELEW.", isa.ElewInit, reads=("id",))
def _elewinit_order(i: isa.ElewInit, target: Target, init: Any) -> Iterator[str]:
    """ELEW takes them in this order (AMD's simulator checks the same)."""
    pending = len(init or ())
    if i.id != pending:
        yield (
            f"id is {i.id}, but must be {pending} ({pending} ELEWINIT since the last ELEW)"
            if pending < 4
            else f"id is {i.id}, but 4 ELEWINIT wait for an ELEW already"
        )


@_rule(
    "ELEW has exactly num ELEWINIT between itself and the ELEW before.",
    isa.Elew,
    reads=("num",),
)
def _elew_inputs(i: isa.Elew, target: Target, init: Any) -> Iterator[str]:
    """ELEWINIT is consumed, not sticky."""
    pending = len(init or ())
    if i.num != pending:
        yield f"num is {i.num}, but must be {pending} (ELEWINIT since the last ELEW)"


@_rule("ELEW multiply has two inputs.", isa.Elew, reads=("elew_type", "num"))
def _mult_inputs(i: isa.Elew, target: Target, init: Any) -> Iterator[str]:
    """AMD's simulator checks the same."""
    if i.elew_type == ElewType.MULT:
        yield from _range("num", i.num, 2, 2, "inputs of MULT")


@_rule(
    "jump_bank * valid_pixel_parallel of ELEW is at most the pixel parallel.",
    isa.Elew,
    reads=("valid_pixel_parallel",),
    of_init=("jump_bank", "id"),
)
def _jump_bank(i: isa.Elew, target: Target, init: Any) -> Iterator[str]:
    """The rows of one input lie in different banks (AMD's simulator checks the same)."""
    for entry in init or ():
        reach = entry.jump_bank * i.valid_pixel_parallel
        yield from _range(
            f"jump_bank * valid_pixel_parallel of input {entry.id}",
            reach,
            1,
            target.pixel_parallel,
            "pixel parallel",
        )


@_rule(
    "table is 0, or with the extension `table` at most the number of slots.",
    isa.Conv,
    isa.Alu,
    isa.Pool,
    isa.DptWise,
    isa.Elew,
    reads=("table",),
)
def _table(i: Any, target: Target, init: Any) -> Iterator[str]:
    """There are no more slots than that in the table memory."""
    if Extension.TABLE in target.extensions:
        yield from _range("table", i.table, 0, table.SLOTS, "slots, from 1 on")
    elif i.table:
        yield f"table is {i.table}, but must be 0 ({target.name} lacks the extension 'table')"


@_rule(
    "channel_shift is 0, or the target has `channel`.",
    isa.Conv,
    isa.Alu,
    isa.DptWise,
    reads=("channel_shift",),
)
def _channel_shift(i: Any, target: Target, init: Any) -> Iterator[str]:
    """There is no memory for the shifts without it."""
    if i.channel_shift and Extension.CHANNEL not in target.extensions:
        yield (
            f"channel_shift is {i.channel_shift}, but must be 0 "
            f"({target.name} lacks the extension 'channel')"
        )


@_rule(
    "scaled is 0, or the target has `scaled`, channel_shift is 0, and ALU is in one of the modes "
    "DWCV, AVEPOOL and MAXPOOL.",
    isa.Conv,
    isa.Alu,
    isa.Elew,
    reads=("scaled", "channel_shift"),
    of_init=("exec_mode",),
)
def _scaled(i: Any, target: Target, init: Any) -> Iterator[str]:
    """There are no multipliers without it; other modes do no sums."""
    if not i.scaled:
        return
    if Extension.SCALED not in target.extensions:
        yield f"scaled is 1, but must be 0 ({target.name} lacks the extension 'scaled')"
    if not isinstance(i, isa.Elew) and i.channel_shift:
        yield "scaled and channel_shift are 1, but one of them must be 0 (a channel has one scale)"
    if isinstance(init, isa.AluInit) and init.exec_mode not in SCALED_MODES:
        yield from _one_of("exec_mode", init.exec_mode, SCALED_MODES, "with scaled")


BY_KIND: dict[type[isa.Instruction], tuple[Rule, ...]] = {
    cls: tuple(rule for rule in RULES if cls in rule.applies_to)
    for cls in isa.INSTRUCTIONS.values()
}
"""The rules for each kind of instruction."""


def violations(instruction: isa.Instruction, target: Target, *, init: Init = None) -> list[str]:
    """Return why ``target`` refuses ``instruction``, a message a reason; empty if it does not.

    ``init`` is what is in force: the last CONVINIT for CONV, ALUINIT for ALU, POOLINIT for POOL,
    DWINIT for DPTWISE (None: there was none), and for ELEWINIT and ELEW the sequence of ELEWINITs
    since the last ELEW. Other instructions ignore it.
    """
    return [
        message
        for rule in BY_KIND[type(instruction)]
        for message in rule.broken(instruction, target, init)
    ]
