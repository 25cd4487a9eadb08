# SPDX-License-Identifier: Apache-2.0
"""Layer kinds: one table knows them all, and what is not in it never gets as far as a plan."""

import dataclasses

import numpy as np
import pytest
from network_draws import draw_network

from opendpu.compiler import backend
from opendpu.compiler.backend import build
from opendpu.compiler.kinds import LAYER_KINDS
from opendpu.compiler.layers import AluLayer, EltwiseLayer, Layer, Window
from opendpu.compiler.network import Network
from opendpu_arch import isa
from opendpu_arch.isa import AluMode
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


def kinds_below(kind: type[Layer]) -> set[type[Layer]]:
    """Return the classes below one that can be made."""
    found = set() if kind.__abstractmethods__ else {kind}
    return found.union(*(kinds_below(below) for below in kind.__subclasses__()))


def test_every_layer_class_has_its_row() -> None:
    ours = {k for k in kinds_below(Layer) if k.__module__.startswith("opendpu.")}
    assert ours == {kind.layer for kind in LAYER_KINDS}
    for kind in LAYER_KINDS:
        cascades = kind.emitter.in_cascade is not None
        assert cascades == kind.layer.IN_CASCADES


@dataclasses.dataclass(frozen=True, kw_only=True)
class NegatedLayer(AluLayer):
    """A kind that is only known here: an ALU that is always LeakyReLU with a factor of -1."""

    @property
    def label(self) -> str:
        return "negated"


def test_a_kind_more_is_a_class_and_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the tilings and instructions of another one it compiles to the same program."""
    network = draw_network(3)
    name, feature = "more", network.features[network.layers[-1].output]
    features = {**network.features, name: dataclasses.replace(feature, name=name)}
    fields = {
        "name": name, "source": feature.name, "output": name, "window": Window(),
        "mode": AluMode.LEAKYRELU, "multi_factor": 255,
    }  # fmt: skip

    def with_layer(layer: Layer) -> Network:
        return Network(
            features=features, layers=(*network.layers, layer), inputs=network.inputs,
            outputs=(name,),
        )  # fmt: skip

    wanted = build(with_layer(AluLayer(**fields)), TARGET)
    alu = next(kind for kind in LAYER_KINDS if kind.layer is AluLayer)
    more = (*LAYER_KINDS, dataclasses.replace(alu, layer=NegatedLayer))
    tilings = {kind.layer: kind.tilings for kind in more}
    emitters = {kind.layer: kind.emitter for kind in more}
    monkeypatch.setattr(backend, "TILINGS", tilings)
    monkeypatch.setattr(backend, "EMITTERS", emitters)
    found = build(with_layer(NegatedLayer(**fields)), TARGET)
    assert isa.encode(found.schedule.instructions) == isa.encode(wanted.schedule.instructions)


def test_layers_say_what_they_read_and_how() -> None:
    window = Window(kernel_h=3, kernel_w=3, stride_h=2, stride_w=2)
    pool = AluLayer(name="p", source="x", output="p", window=window, mode=AluMode.MAXPOOL)
    total = EltwiseLayer(name="s", sources=("x", "p"), output="s", shift_read=(0, 0), shift_write=0)
    assert (pool.operands, total.operands) == (("x",), ("x", "p"))
    assert (pool.sliding_window("x"), total.sliding_window("x")) == (window, None)
    assert pool.preferred_rows_per_bank("x") == 2 and total.preferred_rows_per_bank("x") == 1
    assert not pool.constants and total.ends_in_elew and not pool.ends_in_elew


def test_constants_come_in_the_order_of_the_weight_segment() -> None:
    weights = np.zeros((3, 3, 8), np.int8)
    layer = AluLayer(
        name="d", source="x", output="d", window=Window(kernel_h=3, kernel_w=3),
        mode=AluMode.DWCV, weights=weights, bias=np.ones(8, np.int8),
    )  # fmt: skip
    assert list(layer.constants) == ["bias", "weights"]
    assert layer.constants["weights"] is weights
