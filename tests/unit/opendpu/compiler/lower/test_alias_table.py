# SPDX-License-Identifier: Apache-2.0
"""Parts of a feature map are those that the aliases say, whatever has changed."""

import random

from opendpu.compiler.lower.alias_table import AliasTable
from opendpu.compiler.network import Alias


def alias(holder: str) -> Alias:
    return Alias(holder=holder, offset=0, pixel_bytes=1, row_bytes=1)


def test_parts_follow_every_change() -> None:
    draw = random.Random(1)
    table = AliasTable()
    for _ in range(400):
        part = draw.randrange(1, 12)
        if draw.random() < 0.3:
            table.pop(f"f{part}", None)
        else:  # of one with a smaller number, so that there is no circle
            table[f"f{part}"] = alias(f"f{draw.randrange(part)}")
        for holder in (f"f{n}" for n in range(12)):
            wanted = {name for name, one in table.items() if one.holder == holder}
            assert set(table.parts(holder)) == wanted
        found = list(table.with_parts("f0"))
        assert sorted(found) == sorted({"f0"} | {n for n in table if root(table, n) == "f0"})


def root(table: AliasTable, name: str) -> str:
    while name in table:
        name = table[name].holder
    return name
