# SPDX-License-Identifier: Apache-2.0
"""Functions of one value, for targets with tables; of those whose float32 results are exact."""

from random_graphs.grower import TABLE_GROWTHS, Grower, grows


@grows(8, TABLE_GROWTHS)
def function(g: Grower) -> str | None:
    """Add a chain of one to four ops that are a function of one value."""
    pick, source = g.pick, g.source()
    name, shape = g.name("function"), g.shape(source)
    made = source
    for number in range(pick.randint(1, 4)):
        made = _link(g, f"{name}_{number}", made, source, shape)
    return g.fix(made, g.near(g.point_of(source) - pick.choice([0, 0, 1, 3])))


def _link(g: Grower, name: str, value: str, source: str, shape: tuple[int, ...]) -> str:
    """Add an op of a value, and perhaps of what it was computed from."""
    kind = g.pick.choice(["neg", "hard-tanh", "relu", "sub", "max", "min", "constant", "swap"])
    if kind in ("neg", "hard-tanh", "relu"):
        return g.op(name, kind, shape, [value])
    if kind in ("sub", "max", "min"):
        return g.op(name, kind, shape, [value, source])
    constant = g.graph.add(
        f"{name}_c", "const", (1,), value=g.random.integers(-16, 16, 1).astype("float32") / 8
    ).name
    order = [value, constant] if kind == "constant" else [constant, value]
    return g.op(name, g.pick.choice(["sub", "max", "min"]), shape, order)
