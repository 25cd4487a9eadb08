# SPDX-License-Identifier: Apache-2.0
"""Attention on the RTL, which knows nothing of it: the reference's results, the model's cycles."""

import pathlib
import sys
from collections.abc import Callable

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(TESTS / "unit" / "opendpu" / "compiler"))

from graph_draws import Quantized  # noqa: E402
from test_products import attention  # noqa: E402

pytestmark = pytest.mark.cosim


@pytest.mark.parametrize("memory", ["kv260", "stall:7"])
def test_attention(memory: str, as_reference: Callable[..., None]) -> None:
    q = Quantized()
    graph = q.done(*attention(q, tokens=17, heads=3, size=8))
    as_reference(graph, memory=memory)
