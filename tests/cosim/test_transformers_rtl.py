# SPDX-License-Identifier: Apache-2.0
"""A transformer on the RTL: softmax, LayerNorm and GELU by tables, in one subgraph."""

import pathlib
import sys
from collections.abc import Callable

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler"))

from random_graphs.scales import by_integers  # noqa: E402
from random_graphs.transformers import draw_transformer  # noqa: E402
from test_transformers import quantized  # noqa: E402

pytestmark = pytest.mark.cosim

NAME = "B64+table+channel+scaled"
"""What other tests build too."""


@pytest.mark.parametrize("seed,memory", [(6, "kv260"), (5, "stall:7")])
def test_a_transformer(seed: int, memory: str, as_reference: Callable[..., None]) -> None:
    graph = quantized(draw_transformer(seed), NAME, seed)
    parts = {part for part in ("_probability", "_factor") for node in graph if part in node.name}
    assert len(parts) == 2
    as_reference(graph, memory=memory, name=NAME, reference=by_integers)
