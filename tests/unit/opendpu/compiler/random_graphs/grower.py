# SPDX-License-Identifier: Apache-2.0
"""Random quantized graphs: how one grows, op by op; the ops are in the files beside this one."""

import dataclasses
import math
import random
from collections.abc import Callable, Sequence

from graph_draws import Quantized

from opendpu_arch import table
from opendpu_arch.extensions import Extension
from opendpu_arch.scaled import TERM_WORDS
from opendpu_arch.target import Target
from random_graphs.scales import with_any_scales

TARGETS = (
    "B64", "B128", "B144", "B256", "B512", "B800", "B1024", "B1152", "B1600", "B2304", "B3136",
    "B4096",
)  # fmt: skip
DEPTHS = (2048, 2048, 2048, 1024, 512, 256)
LEAST_DEPTH = max(table.WORDS, TERM_WORDS)
"""Of targets with memories of that size, which are banks to the functional simulator."""
MOST_ELEMENTS = 50_000
"""Of a feature map."""
FURTHEST = 15
"""Between fix points of an addition; between that of a product and where it would be exact."""
MOST_MACS = 4_000_000
"""Of a layer."""
Growth = Callable[["Grower"], str | None]
GROWTHS: list[tuple[Growth, int]] = []
"""What adds an op, or nothing where none fits; with its weight."""
TABLE_GROWTHS: list[tuple[Growth, int]] = []
"""What is drawn besides for targets with tables, so that plain ones draw what they always drew."""
PRODUCT_GROWTHS: list[tuple[Growth, int]] = []
"""What is drawn besides where products of feature maps are asked for."""


def grows(weight: int, growths: list[tuple[Growth, int]] = GROWTHS) -> Callable[[Growth], Growth]:
    """Register what adds an op."""

    def register(growth: Growth) -> Growth:
        growths.append((growth, weight))
        return growth

    return register


class Grower(Quantized):
    """A graph in the making, and the choices that make it.

    Parameters
    ----------
    seed
        Everything follows from it.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.pick = random.Random(seed)
        self.target = dataclasses.replace(
            Target.from_name(self.pick.choice(TARGETS)), bank_depth=self.pick.choice(DEPTHS)
        )
        self.growths = GROWTHS
        self.by_channel = False
        """Whether weights and biases of layers may have a fix point for each output channel."""
        self.maps: list[str] = []
        """The ``fix`` ops of feature maps, the newest last."""
        self.flat: list[str] = []
        """Those of tensors with fewer axes."""
        self.ends: list[str] = []
        """Results that are no int8, for nobody to read."""
        self.count = 0

    def name(self, kind: str) -> str:
        """Return a name for the next op."""
        self.count += 1
        return f"{kind.replace('-', '_')}{self.count}"

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the axes of a tensor behind the batch."""
        return self.graph[name].shape[1:]

    def point_of(self, name: str) -> int:
        return int(self.graph[name].fix_point)

    def source(self) -> str:
        """Return a feature map to go on from, most often the newest."""
        return self.maps[-1] if self.pick.random() < 0.6 else self.pick.choice(self.maps)

    def alike(self, name: str) -> list[str]:
        """Return the feature maps of the same shape."""
        return [n for n in self.maps if self.shape(n) == self.shape(name)]

    def can_add(self, names: Sequence[str]) -> bool:
        """Tell whether the DPU's addition takes the fix points of feature maps."""
        points = [*map(self.point_of, names)]
        return max(points) - min(points) <= FURTHEST

    def channels(self) -> int:
        """Return a number of channels, often next to a multiple of the channel parallel."""
        parallel = self.target.channel_parallel
        near = [parallel - 1, parallel, parallel + 1, 2 * parallel, 2 * parallel + 3]
        return self.pick.choice([1, 2, 3, self.pick.randint(1, 40), *near])

    def near(self, point: int) -> int:
        """Return a fix point, most often the given one."""
        return min(9, max(-5, point + self.pick.choice([0, 0, 0, 0, -1, 1, -2, 2])))

    def fits(self, shape: tuple[int, ...], macs: int = 0) -> bool:
        """Tell whether a result is neither empty nor larger than tests have time for."""
        return min(shape) >= 1 and math.prod(shape) <= MOST_ELEMENTS and macs <= MOST_MACS

    def start(self) -> None:
        """Add an input."""
        pick = self.pick
        kind = pick.random()
        if kind < 0.15:
            size = [1, pick.choice([1, 2, 17, 64, 300])]
            pick.shuffle(size)
        elif kind < 0.3:
            size = [pick.randint(17, 48), pick.randint(17, 48)]
        else:
            size = [pick.choice([1, 2, 3, 5, 7, 8, 11, 13, 16]) for _ in range(2)]
        channels = self.channels()
        while math.prod(size) * channels > MOST_ELEMENTS:
            channels = -(-channels // 2)
        name = self.name("x")
        self.maps.append(self.data(*size, channels, name=name, point=pick.randint(2, 7)))

    def step(self) -> None:
        """Add an op, if the one that is drawn fits anywhere."""
        growths, weights = zip(*self.growths, strict=True)
        (growth,) = self.pick.choices(growths, weights)
        made = growth(self)
        if made is not None:
            (self.maps if len(self.shape(made)) == 3 else self.flat).append(made)

    def finish_graph(self) -> None:
        """Make what nobody uses an output, and now and then something else."""
        used = {s for node in self.graph for s in node.sources()}
        made = [n for n in (*self.maps, *self.flat) if not n.startswith("x")]
        outputs = [n for n in made if n not in used or self.pick.random() < 0.08]
        self.graph.outputs = [*outputs, *self.ends] or self.maps[-1:]
        if self.pick.random() < 0.15:
            source, name = self.pick.choice(self.maps), self.name("argmax")
            self.op(
                name, "argmax", self.shape(source)[:2], [source], axis=self.pick.choice([3, -1])
            )
            self.graph.outputs.append(name)


def draw(
    seed: int, most_ops: int = 14, *, tables: bool = False, channels: bool = False,
    scaled: bool = False, products: bool = False,
) -> Grower:  # fmt: skip
    """Return a random graph and its target, one with the extensions that are asked for."""
    grower = Grower(seed)
    wanted = {Extension.TABLE: tables, Extension.CHANNEL: channels, Extension.SCALED: scaled}
    least = LEAST_DEPTH if tables or scaled else 0
    grower.target = dataclasses.replace(
        grower.target, extensions=frozenset(one for one, asked in wanted.items() if asked),
        bank_depth=max(least, grower.target.bank_depth),
    )  # fmt: skip
    if tables:
        grower.growths = grower.growths + TABLE_GROWTHS
    if products:
        grower.growths = grower.growths + PRODUCT_GROWTHS
    grower.by_channel = channels
    for _ in range(grower.pick.choice([1, 1, 1, 2, 3])):
        grower.start()
    most = len(grower.maps) + grower.pick.randint(1, most_ops)
    for _ in range(8 * most_ops):
        if len(grower.maps) + len(grower.flat) + len(grower.ends) >= most:
            break
        grower.step()
    grower.finish_graph()
    if scaled:
        with_any_scales(grower.graph, grower.pick)
    return grower
