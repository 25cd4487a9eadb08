# SPDX-License-Identifier: Apache-2.0
"""Random ELEW."""

import dataclasses

from opendpu_arch import isa
from opendpu_arch.scaled import TERM_SLOTS
from opendpu_sim.progen.builder import Builder
from opendpu_sim.progen.geometry import TRIES, table


def eltwise(b: Builder) -> None:
    """Append ELEWINITs and an ELEW."""
    rng, target = b.rng, b.target
    parallel = target.pixel_parallel
    for _ in range(TRIES):
        multiply = rng.random() < 0.4
        num = 2 if multiply else rng.randrange(1, 5)
        rows = rng.choice(
            (target.alu_pixel_parallel, rng.randrange(1, target.alu_pixel_parallel + 1))
        )
        groups = rng.choice((1, 1, 2, 3, rng.randrange(1, 9)))
        length = rng.randrange(1, max(2, b.image_words // groups // 2))
        inputs = []
        for entry in range(num):
            jump = rng.choice((groups, groups, groups + rng.randrange(3), 0, 1))
            row = (length - 1) * jump + groups
            endl = rng.randrange(1, max(2, min(row + 3, b.image_words - row)))
            if row + endl > b.image_words:
                break
            inputs.append(
                isa.ElewInit(
                    id=entry,
                    bank_id_in=rng.randrange(target.image_banks),
                    share_pp=int(rng.random() < 0.2),
                    jump_bank=rng.choice((1, rng.randrange(1, parallel // rows + 1))),
                    jump_read_endl=endl,
                    bank_addr_in=b.address(b.image, b.image_words, row + endl, bits=14),
                    shift_read=rng.choice((0, 0, 1, 2, rng.randrange(16))),
                    jump_read=jump,
                )
            )
        jump_write = rng.choice((groups, groups, groups + rng.randrange(3)))
        row = (length - 1) * jump_write + groups
        endl = row + rng.choice((0, 1, 3))
        if len(inputs) < num or row + endl > b.image_words:
            continue
        multiplied = bool(b.records) and groups <= b.records and rng.random() < 0.5
        if multiplied:
            inputs = [dataclasses.replace(i, term=rng.randrange(TERM_SLOTS)) for i in inputs]
            first_record = b.record_address(groups, 12)
            inputs[0] = dataclasses.replace(inputs[0], bank_addr_scale=first_record)
        write = rng.choice((0, 17, rng.randrange(32), 24 if multiply else 18))
        elew = isa.Elew(
            bank_id_out=rng.randrange(target.image_banks),
            elew_type=int(multiply),
            act_type=rng.randrange(2),
            length=length,
            valid_pixel_parallel=rows,
            num=num,
            jump_write_endl=endl,
            bank_addr_out=b.address(b.image, b.image_words, row + endl, bits=14),
            channel_group=groups,
            shift_write=write,
            jump_write=jump_write,
            table=table(b),
            scaled=int(multiplied),
        )
        if rng.random() < 0.1:  # in place
            first = inputs[0]
            inputs[0] = dataclasses.replace(
                first,
                share_pp=0,
                jump_bank=1,
                jump_read=jump_write,
                jump_read_endl=endl,
                bank_id_in=elew.bank_id_out,
                bank_addr_in=elew.bank_addr_out,
            )
        if b.add_elew(inputs, elew):
            return
    raise AssertionError("no legal ELEW found")
