# SPDX-License-Identifier: Apache-2.0
"""SAVEs that need not wait for those before them, against the bytes that they write."""

import numpy as np

from opendpu.compiler.passing_saves import IN_FLIGHT, passing_saves
from opendpu_arch.isa import Load, Save


def save(address: int, length: int, jump: int, channel: int, **fields: int) -> Save:
    return Save(ddr_addr=address, length=length, jump_write=jump, channel=channel, **fields)


def written(one: Save) -> set[tuple[int, int]]:
    """Return register and number of all bytes that a SAVE writes."""
    wide = 1 if one.argmax & 2 and not one.const_en else one.channel
    starts = (one.ddr_addr + pixel * one.jump_write for pixel in range(one.length))
    return {(one.reg_id, start + byte) for start in starts for byte in range(wide)}


def between(one: set[tuple[int, int]], other: set[tuple[int, int]]) -> bool:
    """Tell whether first and last bytes of two SAVEs overlap."""
    return min(one) <= max(other) and min(other) <= max(one)


def test_rows_that_lie_between_each_other_pass() -> None:
    rows = [save(16 * row, 3, 16 * 20, 16) for row in range(20)]
    assert passing_saves(rows) == list(range(1, 20))


def test_rows_behind_each_other_keep_their_order() -> None:
    assert passing_saves([save(48 * row, 3, 16, 16) for row in range(20)]) == []


def test_the_same_bytes_keep_their_order() -> None:
    rows = [save(16 * row, 3, 160, 16) for row in range(3)]
    assert passing_saves([*rows, rows[0], rows[2]]) == [1, 2]


def test_another_distance_of_pixels_keeps_its_order() -> None:
    assert passing_saves([save(0, 3, 160, 16), save(16, 3, 144, 16)]) == []


def test_what_is_no_longer_under_way_is_in_no_way() -> None:
    rows = [save(16 * row, 3, 16 * 20, 16) for row in range(IN_FLIGHT)]
    assert passing_saves([*rows, rows[0]]) == list(range(1, IN_FLIGHT + 1))
    assert passing_saves([*rows, rows[1]]) == list(range(1, IN_FLIGHT))


def test_no_saves() -> None:
    assert passing_saves([]) == passing_saves([Load(), Load()]) == []


def test_no_byte_is_shared_with_one_that_is_passed(rng: np.random.Generator) -> None:
    passed = 0
    for _ in range(200):
        jump = int(rng.integers(4, 40))
        saves = [
            save(
                int(rng.integers(0, 200)), int(rng.integers(1, 5)),
                jump if rng.random() < 0.9 else int(rng.integers(4, 40)),
                int(rng.integers(1, 12)), reg_id=int(rng.integers(1, 3)),
                argmax=int(rng.choice([0, 0, 2, 3])), const_en=int(rng.integers(0, 2)),
            )
            for _ in range(30)
        ]  # fmt: skip
        program = [one for pair in zip(saves, [Load()] * 30, strict=True) for one in pair]
        for number in passing_saves(program):
            place = number // 2
            mine = written(saves[place])
            before = [written(one) for one in saves[max(0, place - IN_FLIGHT + 1) : place]]
            assert all(mine.isdisjoint(other) for other in before)
            assert any(between(mine, other) for other in before)
            passed += 1
    assert passed > 100
