# SPDX-License-Identifier: Apache-2.0
"""Random LOADs and SAVEs: unaligned, partial, overlapping, augmented, constant, with gaps."""

from opendpu_arch import isa
from opendpu_arch.table import SLOT_WORDS
from opendpu_sim.progen.builder import DATA, RESULT, Builder

TRIES = 200


def load(b: Builder) -> None:
    """Append one LOAD and, where it leaves the window, a SAVE of what it wrote."""
    for _ in range(TRIES):
        rng = b.rng
        channel = rng.choice(
            (
                rng.randrange(1, b.lanes + 1),
                b.lanes,
                rng.randrange(1, 65),
                b.lanes * rng.randrange(1, 5),
                rng.randrange(1, b.lanes * min(b.image_words, 40) + 1),
            )
        )
        words = -(-channel // b.lanes)
        jump = words + rng.choice((0, 0, 1, rng.randrange(4)))
        most = (b.image_words - words) // jump + 1
        if most < 1:
            continue
        length = rng.choice((1, rng.randrange(1, most + 1), most))
        step = rng.choice(
            (
                channel,
                channel + rng.randrange(100),
                rng.randrange(1, channel + 1),
                rng.randrange(1, 3000),
            )
        )
        far = rng.random() < 0.15
        bank = rng.randrange(b.target.image_banks)
        address = b.address(b.image, b.image_words, (length - 1) * jump + words)
        if far:
            length = rng.randrange(1, 9)
            jump = rng.randrange(words, min(1024, (b.depth - words) // length) + 1)
            address = b.alias(rng.randrange(b.depth), 12)
        mean = (
            rng.randrange(4) if b.target.load_mean and channel <= 64 and rng.random() < 0.4 else 0
        )
        augmented = rng.random() < 0.5
        if b.add(
            isa.Load(
                bank_id=bank,
                bank_addr=address,
                channel=channel,
                length=length,
                jump_read=step,
                jump_write=jump,
                pad_start=rng.randrange(32) if augmented else 0,
                pad_end=rng.randrange(32) if augmented else 0,
                pad_idx=rng.randrange(1, 33) if augmented else 1,
                mode_avg=mean,
                broadcast=rng.choice((0, 0, 0, 0, 3, 7)),
                const_value=rng.randrange(256),
                reg_id=DATA,
                ddr_addr=b.data((length - 1) * step + channel),
            )
        ):
            if far and words * b.lanes <= 4096:
                size = words * b.lanes
                assert b.add(
                    isa.Save(
                        bank_id=bank,
                        bank_addr=address,
                        channel=size,
                        length=length,
                        jump_read=jump,
                        jump_write=size,
                        reg_id=RESULT,
                        ddr_addr=b.result(length * size),
                    )
                )
            return
    raise AssertionError("no legal LOAD found")


def reload(b: Builder) -> None:
    """Append LOADs of other weights and biases over some of those that are there."""
    target = b.target
    for bank in (*range(target.convw_base, target.bias_bank + 1), *b.shift_banks):
        if b.rng.random() < 0.4:
            words = b.rng.randrange(1, b.weight_words + 1)
            first = b.address(b.weights, b.weight_words, words) % b.depth
            b.fill(bank, first, words)


def reload_tables(b: Builder) -> None:
    """Append LOADs of other entries over some of the tables that are there, whole or in part."""
    for slot in b.tables:
        if b.rng.random() < 0.5:
            words = b.rng.choice((SLOT_WORDS, b.rng.randrange(1, SLOT_WORDS + 1)))
            first = b.rng.randrange(SLOT_WORDS - words + 1)
            b.fill_table(slot, first, words)


def save(b: Builder) -> None:
    """Append one SAVE to bytes of DDR that no other SAVE touches."""
    for _ in range(TRIES):
        rng = b.rng
        channel = rng.choice(
            (
                rng.randrange(1, b.lanes + 1),
                b.lanes,
                b.lanes * rng.randrange(1, 5),
                rng.randrange(1, b.lanes * min(b.image_words, 40) + 1),
            )
        )
        words = -(-channel // b.lanes)
        jump = rng.choice((words, words + rng.randrange(4), rng.randrange(1, 8)))
        most = (b.image_words - words) // jump + 1
        if most < 1 or channel > 4096:
            continue
        length = rng.choice((1, rng.randrange(1, most + 1), most))
        argmax = rng.choice((0, 0, 1, 2, 3)) if b.target.save_argmax else rng.randrange(2)
        if argmax & 2 and channel > 256:
            continue
        constant = rng.random() < 0.15
        size = 1 if argmax & 2 and not constant else channel
        step = size + rng.choice((0, 0, 1, rng.randrange(40), rng.randrange(2000)))
        if b.add(
            isa.Save(
                bank_id=rng.randrange(b.target.image_banks),
                bank_addr=b.address(b.image, b.image_words, (length - 1) * jump + words),
                hp_id=rng.randrange(2),
                argmax=argmax,
                channel=channel,
                length=length,
                jump_read=jump,
                jump_write=step,
                const_en=int(constant),
                const_value=rng.randrange(256),
                reg_id=RESULT,
                ddr_addr=b.result((length - 1) * step + size),
            )
        ):
            return
    raise AssertionError("no legal SAVE found")
