# SPDX-License-Identifier: Apache-2.0
"""Einsum as products of matrices and of elements, and what stays as it is."""

import pathlib
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from opendpu.frontend import load_onnx
from opendpu.ops.foreign import KIND, label_of

SIZES = {"b": 2, "h": 3, "i": 4, "j": 5, "k": 6, "l": 7}
Write = Callable[..., pathlib.Path]


@pytest.fixture
def written(tmp_path: pathlib.Path) -> Write:
    """Write an Einsum of tensors with the sizes of their labels; some are constants."""

    def write(
        equation: str, *, ranks: tuple[str, ...] = (), constant: int | None = None
    ) -> pathlib.Path:
        terms = ranks or tuple(equation.replace(" ", "").split("->")[0].split(","))
        shapes = [[SIZES[label] for label in term] for term in terms]
        values = np.random.default_rng(7)
        infos, weights = [], []
        for number, shape in enumerate(shapes):
            if number == constant:
                array = values.standard_normal(shape).astype(np.float32)
                weights.append(numpy_helper.from_array(array, f"x{number}"))
            else:
                infos.append(
                    helper.make_tensor_value_info(f"x{number}", onnx.TensorProto.FLOAT, shape)
                )
        nodes = [
            helper.make_node(
                "Einsum", [f"x{n}" for n in range(len(shapes))], ["y"], "sum", equation=equation
            ),
            helper.make_node("Identity", ["y"], ["z"]),
        ]
        result = helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "einsum", infos, [result], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, tmp_path / "einsum.onnx")
        return tmp_path / "einsum.onnx"

    return write


def stays(path: pathlib.Path) -> bool:
    return any(node.kind == KIND and label_of(node) == "Einsum" for node in load_onnx(path))


PRODUCTS = [
    "bij,bjk->bik", "bji,bjk->bik", "bhij,bhkj->bhik", "bihj,bkhj->bhik", "bhik,bkhj->bihj",
    "ij,jk->ik", "ij,jk", "ijk,kjl->il", "bij,jk->ikb", "ij,kj->ki", "bij,bij->b",
    "ij,ij->ij", "bhij,bh->bhij", "ij,k->kij", "b i j , b j k -> b i k",
]  # fmt: skip


@pytest.mark.parametrize("constant", [None, 0, 1])
@pytest.mark.parametrize("equation", PRODUCTS)
def test_products(equation: str, constant: int | None, written: Write, agrees) -> None:
    path = written(equation, constant=constant)
    assert not stays(path)
    agrees(path)


@pytest.mark.parametrize(
    ("equation", "ranks"),
    [
        ("...ij,...jk->...ik", ("bhij", "bhjk")), ("...ij,jk->...ik", ("bhij", "jk")),
        ("i...,ij...->j...", ("ibh", "ijbh")), ("...j,kj", ("bij", "kj")),
    ],
)  # fmt: skip
def test_an_ellipsis(equation: str, ranks: tuple[str, ...], written: Write, agrees) -> None:
    path = written(equation, ranks=ranks)
    assert not stays(path)
    agrees(path)


@pytest.mark.parametrize(
    "equation", ["ii,ij->j", "ij,jk->i", "ij,jk,kl->il", "ij->ji", "bij,jk->ik"]
)
def test_what_is_no_product_of_matrices(equation: str, written: Write, agrees) -> None:
    path = written(equation)
    assert stays(path)
    agrees(path)


def test_random_equations(rng: np.random.Generator, written: Write, agrees) -> None:
    for _ in range(12):
        labels = [str(label) for label in rng.permutation(list(SIZES))[: rng.integers(2, 6)]]
        where = rng.integers(0, 4, len(labels))  # both, both and result, one, other
        left = [label for label, place in zip(labels, where, strict=True) if place < 3]
        right = [label for label, place in zip(labels, where, strict=True) if place != 2]
        result = [label for label, place in zip(labels, where, strict=True) if place > 0]
        if not left or not right or not where.any():
            continue
        terms = ["".join(str(s) for s in rng.permutation(term)) for term in (left, right, result)]
        equation = f"{terms[0]},{terms[1]}->{terms[2]}"
        print(equation)
        path = written(equation, constant=[None, 0, 1][rng.integers(3)])
        assert not stays(path)
        agrees(path)
