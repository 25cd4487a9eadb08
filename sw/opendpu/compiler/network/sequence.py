# SPDX-License-Identifier: Apache-2.0
"""Pass: the order of layers.

Where branches join, the longest one comes first and the shortest last, right before the join: a
short cut is then computed when the feature maps of the long way are no longer in its way.
"""

import dataclasses

from opendpu.compiler.network import Network, root_of
from opendpu_arch.target import Target


def sequence(network: Network, target: Target) -> Network:
    """Return ``network`` with its layers in depth-first order from the outputs."""
    before = _dependencies(network)
    depth = [0] * len(before)
    for number, found in enumerate(before):
        depth[number] = 1 + max((depth[n] for n in found), default=0)
    needed = set().union(*before) if before else set()
    order: list[int] = []
    done: set[int] = set()
    waiting = [n for n in reversed(range(len(before))) if n not in needed]
    while waiting:
        number = waiting[-1]
        left = [n for n in before[number] if n not in done]
        if number in done or not left:
            waiting.pop()
            if number not in done:
                done.add(number)
                order.append(number)
            continue
        # the last one put on the stack is the first one visited
        waiting += sorted(left, key=lambda n: (depth[n], -n))
    return dataclasses.replace(network, layers=tuple(network.layers[n] for n in order))


def _dependencies(network: Network) -> list[set[int]]:
    """Return, for every layer, the earlier ones that have to stay before it.

    Feature maps that share bytes count as one.
    """
    found: list[set[int]] = []
    writers: dict[str, list[int]] = {}
    readers: dict[str, list[int]] = {}
    for number, layer in enumerate(network.layers):
        before: set[int] = set()
        sources = {root_of(network.aliases, name) for name in layer.operands}
        output = root_of(network.aliases, layer.output)
        for name in sources | {output}:
            before.update(writers.get(name, ()))
        before.update(readers.get(output, ()))
        found.append(before)
        writers.setdefault(output, []).append(number)
        for name in sources:
            readers.setdefault(name, []).append(number)
    return found
