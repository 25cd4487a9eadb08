# SPDX-License-Identifier: Apache-2.0
"""What the machine refuses, and what it finds when it checks."""

import dataclasses

import numpy as np
import pytest

from opendpu_arch import isa
from opendpu_arch.errors import (
    AddressError,
    DeadlockError,
    DecodeError,
    IllegalInstructionError,
    ProgramError,
    TokenError,
    UninitializedReadError,
)
from opendpu_arch.isa import AluMode, PoolType
from opendpu_arch.target import Target
from opendpu_sim.model.conv import matrix_product
from opendpu_sim.model.machine import Program, plan

B512 = Target.from_name("B512")
MEAN = dataclasses.replace(B512, load_mean=True)


def program(*instructions: isa.Instruction, target: Target = B512) -> Program:
    return plan(isa.encode([*instructions, isa.End()]), target)


def segments(size: int = 256) -> dict[int, np.ndarray]:
    return {0: np.arange(size).astype(np.uint8), 1: np.full(size, 0xEE, np.uint8)}


def fill(bank: int, words: int = 4, first: int = 0) -> isa.Load:
    return isa.Load(bank_id=bank, bank_addr=first, channel=8 * words, jump_read=8 * words)


def save(**fields: int) -> isa.Save:
    return isa.Save(**{"channel": 8, "jump_write": 8, "reg_id": 1, **fields})


def test_no_end() -> None:
    with pytest.raises(ProgramError, match="the program has 2 instructions, but no END"):
        plan(isa.encode([isa.Load(), isa.Load()]), B512)


def test_what_follows_end_is_ignored() -> None:
    code = isa.encode([isa.Load(bank_id=1), isa.End()]) + b"\xff" * 64
    assert plan(code, B512).instructions == 2


def test_unknown_opcode() -> None:
    with pytest.raises(DecodeError, match="instruction 1 at byte 0x14: unknown opcode 0x3"):
        plan(isa.encode([isa.Load()]) + b"\x00\x00\x00\x30", B512)


def test_an_illegal_field_is_named() -> None:
    with pytest.raises(IllegalInstructionError) as caught:
        program(isa.Load(), isa.Save(bank_id=20))
    assert str(caught.value) == (
        "instruction 1 (SAVE): bank_id is 20, but must be in 0..7 (image banks)"
    )


@pytest.mark.parametrize(
    ("init", "i"),
    [
        (
            isa.PoolInit(pool_type=PoolType.MAX, stride_w=8, valid_pixel_parallel=2),
            isa.Pool(length=1024, channel_group=256),
        ),
        (
            isa.AluInit(exec_mode=AluMode.MAXPOOL, stride_w=8, length=1024, channel_group=256),
            isa.Alu(valid_pixel_parallel=2),
        ),
    ],
)
def test_more_words_than_there_are(init: isa.Instruction, i: isa.Instruction) -> None:
    """A hundred bytes of code had asked for 72 GiB."""
    with pytest.raises(ProgramError) as caught:
        program(init, i)
    assert str(caught.value) == (
        f"instruction 1 ({i.mnemonic()}): it goes over 2 rows of 8185 pixels of 256 words, "
        "but the simulator takes at most 1048576 words an instruction"
    )


def test_conv_before_its_init() -> None:
    with pytest.raises(IllegalInstructionError, match=r"instruction 0 \(CONV\): no CONVINIT"):
        program(isa.Conv(), isa.ConvInit())


def test_elew_inputs_are_consumed() -> None:
    inputs = [isa.ElewInit(id=0), isa.ElewInit(id=1), isa.Elew(num=2)]
    with pytest.raises(IllegalInstructionError, match=r"instruction 3 \(ELEW\): num is 2, but mu"):
        program(*inputs, isa.Elew(num=2))


def test_token_errors_come_before_anything_runs() -> None:
    with pytest.raises(DeadlockError):
        program(isa.Load(dpdon=4))
    with pytest.raises(TokenError):
        program(isa.Load(dpdby=4))


@pytest.mark.parametrize("check", [False, True])
def test_ddr_out_of_range(check: bool) -> None:
    planned = program(fill(0), isa.Load(channel=10, length=3, jump_read=100, ddr_addr=47))
    with pytest.raises(AddressError) as caught:
        planned.run(segments(), check=check)
    assert str(caught.value) == (
        "instruction 1 (LOAD): ddr_addr 0x2f with 3 pixels of 10 bytes, 100 apart, ends at 0x101, "
        "but segment 0 has 0x100 bytes"
    )
    planned.run(segments(257), check=check)


def test_save_out_of_range_changes_nothing() -> None:
    planned = program(fill(0), save(), save(ddr_addr=249))
    memory = segments()
    with pytest.raises(AddressError, match=r"instruction 2 \(SAVE\): ddr_addr 0xf9 with 1 pixels"):
        planned.run(memory)
    assert (memory[1] == 0xEE).all()


def test_argmax_needs_room_for_its_bytes_only() -> None:
    planned = program(fill(0), save(argmax=2, ddr_addr=255))
    memory = segments()
    planned.run(memory)
    assert memory[1][255] == 7


def test_missing_segment() -> None:
    with pytest.raises(AddressError) as caught:
        program(isa.Load(reg_id=5)).run(segments())
    assert str(caught.value) == (
        "instruction 0 (LOAD): reg_id is 5, but the job has only segments [0, 1]"
    )


@pytest.mark.parametrize(
    "bad", [np.zeros(512, np.int8), np.zeros((16, 16), np.uint8), np.zeros(512, np.uint8)[::2]]
)
def test_segments_are_plain_bytes(bad: np.ndarray) -> None:
    with pytest.raises(AddressError, match=r"segment 0 is .* but must be contiguous one-dimension"):
        program(fill(0)).run({0: bad})


def test_a_segment_that_save_writes_must_be_writable() -> None:
    memory = segments()
    memory[1].flags.writeable = False
    with pytest.raises(AddressError, match="segment 1 is read-only, but instruction 1 writes it"):
        program(fill(0), save()).run(memory)
    memory = segments()
    memory[0].flags.writeable = False
    program(fill(0), save()).run(memory)


# what follows needs check=True


def refused(*instructions: isa.Instruction, target: Target = B512) -> str:
    planned = program(*instructions, target=target)
    planned.run(segments())  # the fast mode does not look
    with pytest.raises(UninitializedReadError) as caught:
        planned.run(segments(), check=True)
    return str(caught.value)


def test_save_of_bytes_that_nobody_wrote() -> None:
    assert refused(fill(0, 2), save(length=3, bank_addr=0)) == (
        "instruction 1 (SAVE): pixel 2, byte 0 from bank 0, word 2 depends on a byte that nobody "
        "wrote, read by instruction 1 (SAVE) bank_addr: bank 0, word 2, byte 0"
    )


def test_argmax_of_bytes_that_nobody_wrote() -> None:
    assert "instruction 1 (SAVE) bank_addr: bank 0, word 4, byte 0" in refused(
        fill(0), save(bank_addr=3, channel=9, argmax=2)
    )


def test_partial_words_are_written_in_full() -> None:
    program(isa.Load(channel=3), save()).run(segments(), check=True)


def test_a_constant_needs_nothing_written() -> None:
    program(save(const_en=1)).run(segments(), check=True)


def conv_parts(**fields: int) -> list[isa.Instruction]:
    """A 1x1 CONV of bank 0 words 0..3 with all it needs, to bank 4."""
    weights = [fill(bank, 1) for bank in range(8, 16)]
    init = isa.ConvInit(shift_cut=8, stride_h=fields.pop("stride_h", 1))
    conv = isa.Conv(**{"length": 4, "bank_id_out": 4, **fields})
    return [fill(0), *weights, fill(17, 1), init, conv]


def test_conv_passes_on_what_it_read() -> None:
    *parts, init, conv = conv_parts()
    program(*parts, init, conv, save(bank_id=4, length=4)).run(segments(), check=True)
    message = refused(fill(0, 3), *parts[1:], init, conv, save(bank_id=4, length=4))
    assert message == (
        "instruction 12 (SAVE): pixel 3, byte 0 from bank 4, word 3 depends on a byte that nobody "
        "wrote, read by instruction 11 (CONV) bank_addr_in: bank 0, word 3, byte 0"
    )
    assert "instruction 10 (CONV) bank_addr_bias: bank 17, word 0, byte 0" in refused(
        *parts[:-1], init, conv, save(bank_id=4)
    )


def test_lanes_without_weights_matter_only_when_they_are_saved() -> None:
    image, *weights, bias, init, conv = conv_parts()
    first_six = [image, *weights[:6], bias, init, conv]
    program(*first_six, save(bank_id=4, channel=6, length=4)).run(segments(), check=True)
    assert "(SAVE): pixel 0, byte 6 from bank 4, word 0 depends" in refused(
        *first_six, save(bank_id=4)
    )


def test_padding_and_masked_lanes_need_nothing_written() -> None:
    _, *parts, init, conv = conv_parts(pad_left=1, length=2, channel_offset=5, pad_right=15,
                                       pad_bottom=15)  # fmt: skip
    three = isa.Load(bank_addr=1, channel=8)
    program(three, *parts, init, conv, save(bank_id=4, length=2)).run(segments(), check=True)
    unmasked = dataclasses.replace(conv, pad_left=0)
    assert "bank_addr_in: bank 0, word 0" in refused(
        three, *parts, init, unmasked, save(bank_id=4, length=2)
    )


def test_taint_goes_through_several_instructions() -> None:
    *parts, init, conv = conv_parts()
    add = [isa.ElewInit(id=0, bank_id_in=4, jump_read=1),
           isa.ElewInit(id=1, bank_id_in=5, jump_read=1),
           isa.Elew(num=2, bank_id_out=6, length=4)]  # fmt: skip
    pool = [isa.AluInit(exec_mode=AluMode.MAXPOOL, shift_cut=8, kernel_w=2, length=3),
            isa.Alu(bank_id_in=6, bank_id_out=7, pad_right=255, pad_bottom=255)]  # fmt: skip
    rest = [*parts, init, conv, fill(5, 3), *add, *pool]
    program(*rest, save(bank_id=7, length=2)).run(segments(), check=True)
    assert refused(*rest, save(bank_id=7, length=3)).endswith(
        "bank 7, word 2 depends on a byte that nobody wrote, read by instruction 15 (ELEW) "
        "bank_addr_in of input 1: bank 5, word 3, byte 0"
    )


@pytest.mark.parametrize(
    ("mode", "field", "bank"),
    [
        (AluMode.DWCV, "bank_addr_weights", 16),
        (AluMode.DWCVB0, "bank_addr_weights", 16),
        (AluMode.DWCVW16B0, "bank_addr_weights", 16),
        (AluMode.PRELU, "bank_addr_weights", 16),
        (AluMode.DWCV, "bank_addr_bias", 17),
    ],
)
def test_depthwise_parameters(mode: AluMode, field: str, bank: int) -> None:
    alu = [isa.AluInit(exec_mode=mode), isa.Alu(bank_id_out=4)]
    loads = {16: fill(16, 1), 17: fill(17, 1)}
    program(fill(0), *loads.values(), *alu, save(bank_id=4)).run(segments(), check=True)
    del loads[bank]
    message = refused(fill(0), *loads.values(), *alu, save(bank_id=4))
    assert f"(ALU) {field}: bank {bank}, word 0, byte 0" in message


def test_a_mean_that_nobody_wrote() -> None:
    load = isa.Load(mode_avg=1, channel=8)
    program(fill(17, 1), load, save(), target=MEAN).run(segments(), check=True)
    assert "instruction 0 (LOAD) mode_avg: bank 17, word 0, byte 0" in refused(
        load, save(), target=MEAN
    )


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (
            isa.Load(bank_addr=5, length=4, jump_write=683, channel=8),
            r"instruction 1 \(LOAD\): bank_addr 5 with 2050 words runs over itself, because a bank "
            "has 2048",
        ),
        (save(length=4, jump_read=683), r"instruction 1 \(SAVE\): bank_addr 0 with 2050 words"),
    ],
)
def test_bank_overflow(instruction: isa.Instruction, message: str) -> None:
    planned = program(fill(0), instruction)
    planned.run(segments(4096))
    with pytest.raises(AddressError, match=message):
        planned.run(segments(4096), check=True)


def test_wrapping_around_the_end_of_a_bank_is_no_overflow() -> None:
    wrapped = fill(0, 4, first=2046)
    memory = segments()
    program(wrapped, save(bank_addr=2046, length=4)).run(memory, check=True)
    assert memory[1][:32].tolist() == list(range(32))


def test_products_are_exact_in_the_worst_case(rng: np.random.Generator) -> None:
    for k in (1, 1023, 1024, 1025, 1041, 2047, 5001):
        for value in (-128.0, 127.0):  # 127 * 127 is odd: what float32 would lose first
            x = np.full((37, k), value, np.float32)
            w = np.full((5, k), value, np.float32)
            assert (matrix_product(x, w) == int(value) ** 2 * k).all()
        x, w = (rng.integers(-128, 128, (m, k)).astype(np.float32) for m in (61, 16))
        expected = x.astype(np.int64) @ w.astype(np.int64).T
        np.testing.assert_array_equal(matrix_product(x, w), expected)
