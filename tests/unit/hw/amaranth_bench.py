# SPDX-License-Identifier: Apache-2.0
"""Running a component in Amaranth's simulator, a clock cycle a step."""

import collections

from amaranth.sim import Simulator

KEPT = 8
"""Simulators that a process keeps; a large one takes some 30 MB."""
_kept = collections.OrderedDict()


class Simulated:
    """A component and its simulator, which runs benches one after another, each from reset.

    Making a simulator takes longer than most tests run.
    """

    def __init__(self, dut):
        self.dut = dut
        self._benches = ()
        self._simulator = Simulator(dut)
        self._simulator.add_clock(1e-6)

    def _slot(self, number):
        async def testbench(ctx):
            await self._benches[number](ctx)

        return testbench

    def run(self, *benches):
        """Run the coroutine functions ``bench(ctx)``, always the same number, to their end.

        After an error it cannot be used any more.
        """
        if self._benches:
            assert len(benches) == len(self._benches)
            self._simulator.reset()
        else:
            for number in range(len(benches)):
                self._simulator.add_testbench(self._slot(number))
        self._benches = benches
        try:
            self._simulator.run()
        except BaseException:
            for key in [key for key, kept in _kept.items() if kept is self]:
                del _kept[key]
            raise


def simulated(component, *arguments, **options):
    """Return the simulator of ``component(*arguments, **options)``, made where none is kept."""
    key = (component, arguments, tuple(sorted(options.items())))
    if key not in _kept:
        _kept[key] = Simulated(component(*arguments, **options))
        if len(_kept) > KEPT:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]


def simulate(dut, bench):
    """Run the coroutine function ``bench(ctx)`` against ``dut`` to its end."""
    Simulated(dut).run(bench)


async def tick(ctx, signals):
    """One cycle; return what ``signals``, by name, were when it ended."""
    _, _, *values = await ctx.tick().sample(*signals.values())
    return dict(zip(signals, values, strict=True))
