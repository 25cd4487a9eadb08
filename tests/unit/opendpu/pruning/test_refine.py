# SPDX-License-Identifier: Apache-2.0
"""Widths exchanged by exact costs, where the estimate is wrong: weights are loaded meanwhile."""

import pytest

from opendpu.pruning.refine import MOST_GROUPS, PROBES, filled, refined

UNITS = {"early": 64, "late": 64}
STEPS = {name: list(range(8, 65, 8)) for name in UNITS}


class Hidden:
    """Cycles of a DPU that computes an early layer while it loads the weights of a late one."""

    name = "cycles"

    def __init__(self):
        self.asked = 0

    def cost(self, widths):
        """Return the estimate, as if one came after the other."""
        return float(100 * widths["early"] + 70 * widths["late"])

    def exact(self, widths):
        """Return the longer of both."""
        self.asked += 1
        return max(100 * widths["early"], 70 * widths["late"])


def lost(name, width):
    return 1 - width / UNITS[name]


def test_what_is_hidden_is_widened():
    cycles = Hidden()
    found = refined({"early": 32, "late": 24}, STEPS, lost, cycles, 3300)
    assert found == {"early": 32, "late": 40}
    assert cycles.asked < 3 * PROBES


def test_groups_are_widened_where_that_is_hidden():
    cycles = Hidden()
    assert filled({"early": 32, "late": 24}, STEPS, lost, cycles, 3300) == {"early": 32, "late": 32}
    assert cycles.asked == 2


def test_narrower_groups_pay_for_wider_ones():
    class Added(Hidden):
        def exact(self, widths):
            return 30 * widths["early"] + 100 * widths["late"]

    weights = {"early": 1.0, "late": 0.1}
    found = refined(
        {"early": 16, "late": 64}, STEPS, lambda n, w: weights[n] * lost(n, w), Added(), 6880
    )
    assert found == {"early": 64, "late": 48}


def test_a_choice_above_the_limit_gets_no_worse():
    cycles = Hidden()
    found = refined({"early": 32, "late": 24}, STEPS, lost, cycles, 3000)
    assert found["early"] == 32 and cycles.exact(found) == 3200


@pytest.mark.parametrize("groups", [MOST_GROUPS + 1])
def test_large_networks_are_left_alone(groups):
    class Asked:
        name = "cycles"
        count = 0

        def cost(self, widths):
            return float(sum(widths.values()))

        def exact(self, widths):
            self.count += 1
            return sum(widths.values())

    cycles = Asked()
    widths = {str(i): 8 for i in range(groups)}
    steps = {name: [8, 16] for name in widths}
    assert refined(widths, steps, lambda name, width: -width, cycles, 10000) == widths
    assert cycles.count == 1
