# SPDX-License-Identifier: Apache-2.0
"""Custom ops in VART's form: how they are found, made and called."""

import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import xir
from opendpu.runtime import GraphRunner, cpu
from opendpu_arch.errors import UnsupportedError

MODULE = """
import numpy as np


class Twice:
    made = 0

    def __init__(self, op):
        Twice.made += 1
        self.factor = op.get_attr("factor")

    def calculate(self, output, input):
        assert len(input) == 2
        assert [i.get_tensor().name for i in input] == ["x", "k"]
        assert output.get_tensor().dims == [1, 4]
        values, offset = (np.array(i, copy=False) for i in input)
        result = np.asarray(output)
        result[:] = values * self.factor + offset
"""

ADD = """
import numpy as np


class add:
    def __init__(self, op):
        pass

    def calculate(self, output, input):
        np.copyto(np.array(output, copy=False), sum(np.asarray(one) for one in input) + 1000)
"""


def graph_with(kind: str) -> xir.Graph:
    graph = xir.Graph("g")
    x = graph.create_op("x", "data", {"shape": [1, 4], "data_type": "FLOAT32"})
    k = graph.create_const_op("k", np.float32([[10, 20, 30, 40]]))
    attrs = {"shape": [1, 4], "data_type": "FLOAT32", "factor": 2}
    graph.create_op("y", kind, attrs, {"input": [x, k]})
    return graph


X = np.float32([[1, 2, 3, 4]])
Y = [[12, 24, 36, 48]]


@pytest.fixture
def package(tmp_path, monkeypatch) -> Iterator[None]:
    """Put a package ``vart_op_imp`` with an op ``Twice`` on the path."""
    (tmp_path / "vart_op_imp").mkdir()
    (tmp_path / "vart_op_imp" / "Twice.py").write_text(MODULE)
    (tmp_path / "vart_op_imp" / "add.py").write_text(ADD)
    (tmp_path / "vart_op_imp" / "Broken.py").write_text("import a_module_that_is_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    cpu.unregister("Twice")
    cpu.unregister("add")
    for name in [name for name in sys.modules if name.split(".")[0] == "vart_op_imp"]:
        del sys.modules[name]


def test_the_package_of_vart_is_found(package):
    with GraphRunner(graph_with("Twice")) as runner:
        for _ in range(3):
            assert runner.run([X])["y"].tolist() == Y
    assert sys.modules["vart_op_imp.Twice"].Twice.made == 1


def test_the_package_comes_before_our_own_kernels(package):
    graph = xir.Graph("g")
    a, b = (
        graph.create_op(name, "data", {"shape": [1, 4], "data_type": "FLOAT32"}) for name in "ab"
    )
    graph.create_op("y", "add", {}, {"input": [a, b]})
    with GraphRunner(graph) as runner:
        assert runner.run([X, X])["y"].tolist() == [[1002, 1004, 1006, 1008]]


def test_what_a_module_lacks_is_said(package):
    with pytest.raises(ModuleNotFoundError, match="a_module_that_is_missing"):
        GraphRunner(graph_with("Broken"))


def test_an_op_that_nobody_computes(package):
    with pytest.raises(UnsupportedError, match=r"class Absent .* into vart_op_imp/Absent\.py"):
        GraphRunner(graph_with("Absent"))


def test_a_class_can_be_decorated_and_take_other_names():
    @cpu.register_class("Sum")
    class Sum:
        def __init__(self, op: xir.Op) -> None:
            self.name = op.get_name()

        def calculate(self, result, given):
            result[...] = sum(given)

    try:
        with GraphRunner(graph_with("Sum")) as runner:
            assert runner.run([X])["y"].tolist() == [[11, 22, 33, 44]]
    finally:
        cpu.unregister("Sum")
    assert Sum.__name__ == "Sum"


def test_arguments_have_their_names():
    """An op of the library that a user computes otherwise gets a list an argument."""
    graph = xir.Graph("g")
    x = graph.create_op("x", "data", {"shape": [1, 2], "data_type": "FLOAT32"})
    w = graph.create_const_op("w", np.float32([[1, 2]]))
    graph.create_op("y", "inner-product", {"axis": 1}, {"input": [x], "weights": [w]})
    seen = {}

    class Product:
        def __init__(self, op: xir.Op) -> None:
            pass

        def calculate(self, output, input, weights, bias):
            seen.update(input=input, weights=weights, bias=bias)
            output[...] = (input[0] * weights[0]).sum()

    cpu.register_class("inner-product", Product)
    try:
        with GraphRunner(graph) as runner:
            assert runner.run([np.float32([[3, 4]])])["y"].tolist() == [[11]]
    finally:
        cpu.unregister("inner-product")
    assert [len(seen[name]) for name in ("input", "weights", "bias")] == [1, 1, 0]
    assert seen["weights"][0].get_tensor().name == "w"


def test_calls_of_one_object_do_not_overlap():
    busy, overlapped = threading.Lock(), []

    @cpu.register_class("Slow")
    class Slow:
        def __init__(self, op: xir.Op) -> None:
            pass

        def calculate(self, output, input):
            if not busy.acquire(blocking=False):
                overlapped.append(1)
            threading.Event().wait(0.002)
            busy.release()

    try:
        with GraphRunner(graph_with("Slow"), workers=4) as runner:
            outputs = [[np.empty((1, 4), np.float32)] for _ in range(8)]
            jobs = [runner.execute_async([X], output) for output in outputs]
            for job in jobs:
                runner.wait(job)
    finally:
        cpu.unregister("Slow")
    assert not overlapped
