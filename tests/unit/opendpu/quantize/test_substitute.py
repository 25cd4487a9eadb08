# SPDX-License-Identifier: Apache-2.0
"""Sigmoid and swish become hard ones where the DPU then computes them, and the cost is told."""

import sys
from pathlib import Path

import numpy as np
import pytest
from oracle import evaluate_float

from opendpu.quantize import quantize, quantize_with_report
from opendpu.quantize.transforms.substitute import substitutable
from opendpu_arch.errors import UnsupportedError

sys.path.append(str(Path(__file__).parent))
from float_nets import Net, samples

CHOICES = "activation substitution 'soft' is unknown; choose one of none, hard"


def gated():
    """SiLU as one op and as two, a gate from a pool, and a sigmoid at the end."""
    net = Net()
    net.conv("a", "x", 4)
    net.put("silu", "swish", ["a"])
    net.conv("b", "silu", 4)
    net.put("gate", "sigmoid", ["b"])
    net.put("product", "mul", ["b", "gate"])
    net.conv("c", "product", 3)
    net.put("scores", "sigmoid", ["c"])
    return net.done("scores")


def test_only_what_the_dpu_then_computes():
    assert substitutable(gated()) == ["silu", "gate"]
    made = quantize(gated(), samples(), activation_substitution="hard")
    kinds = {node.name: node.kind for node in made}
    assert kinds["gate"] == "hard-sigmoid"
    assert kinds["silu_gate"] == "hard-sigmoid"
    assert kinds["scores"] == "sigmoid"
    assert made.outputs == ["scores"]
    assert {"gate_fix", "silu_fix", "silu_gate_fix", "c_fix"} <= set(made.nodes)


def test_what_folds_into_a_layer_is_none_of_the_cpus_ops():
    """PP-OCRv4's recognition: normalizations between small layers, which are gone in the end."""
    net = Net()
    source = "x"
    for number in range(3):
        net.conv(f"c{number}", source, 4, size=1)
        factor = net.add_const(f"f{number}", np.full(4, 0.5))
        inputs = {"input": [f"c{number}"], "scale": [factor.name]}
        net.put(f"norm{number}", "scale", inputs, {"axis": 3})
        source = net.put(f"silu{number}", "swish", [f"norm{number}"])
    net.conv("last", source, 4, size=1)
    graph = net.done("last")
    assert substitutable(graph) == ["silu0", "silu1", "silu2"]
    assert quantize(graph, samples(), activation_substitution="hard").outputs == ["last_fix"]


def test_a_sigmoid_that_is_an_output_stays_exact_behind_moves_too():
    net = Net()
    net.conv("a", "x", 4)
    net.put("s", "sigmoid", ["a"])
    net.put("r", "reshape", ["s"], {"shape": [1, 256]}, (1, 256))
    assert substitutable(net.done("r")) == []


@pytest.mark.parametrize("kind", ["mish", "gelu", "tanh"])
def test_others_stay_as_with_amds_quantizers(kind):
    net = Net()
    net.conv("a", "x", 4)
    net.put("f", kind, ["a"])
    net.conv("b", "f", 4)
    assert substitutable(net.done("b")) == []


def test_the_report_says_what_it_cost():
    graph, x = gated(), samples()
    report = quantize_with_report(graph, x, activation_substitution="hard").report
    assert report.substituted == ["silu", "gate"]
    hard = gated()
    hard["silu"].kind, hard["gate"].kind = "hard-swish", "hard-sigmoid"
    wanted, found = (evaluate_float(g, x)["scores"] for g in (graph, hard))
    ratio = 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum())
    assert report.substitution_sqnr["scores"] == pytest.approx(ratio, abs=0.01)
    assert f"  output scores: {ratio:.1f} dB" in report.lines()


def deep(kind="swish"):
    """Six convolutions with an activation behind each, but for the last."""
    net = Net()
    source = "x"
    for number in range(6):
        source = net.conv(f"c{number}", source, 6)
        if number < 5:
            source = net.put(f"a{number}", kind, [source])
    return net.done(source)


def error_db(wanted, found):
    return 10 * np.log10((wanted**2).sum() / ((wanted - found) ** 2).sum())


def test_weights_make_up_for_what_hard_swish_lacks():
    """On samples that were not seen: what a YOLOv8 needs to find what it found before."""
    x = samples(64, seed=5)
    wanted, plain = (evaluate_float(deep(kind), x)["c5"] for kind in ("swish", "hard-swish"))
    made = quantize_with_report(deep(), samples(64), activation_substitution="hard")
    found = evaluate_float(made.reference, x)["c5"]
    assert error_db(wanted, found) > error_db(wanted, plain) + 6
    assert [n for n in made.report.notes if n.startswith("weights of 5 layers were refitted")]
    weights = [made.reference["c0_w"].value, made.reference["c1_w"].value]
    assert np.array_equal(weights[0], deep()["c0_w"].value)  # nothing before it was replaced
    assert not np.array_equal(weights[1], deep()["c1_w"].value)


def test_weights_stay_where_they_may_not_change():
    made = quantize_with_report(
        deep(), samples(64), activation_substitution="hard", weight_correction=False,
        cross_layer=False,
    )  # fmt: skip
    for number in range(6):
        assert np.array_equal(made.reference[f"c{number}_w"].value, deep()[f"c{number}_w"].value)
    assert not [note for note in made.report.notes if "refit" in note]


def test_none_proposes_it_where_it_would_help():
    report = quantize_with_report(gated(), samples()).report
    assert report.substituted == ()
    assert report.notes == [
        "sigmoid and swish split the network between DPU and CPU (2 ops); activation "
        "substitution 'hard' would put them on the DPU"
    ]
    net = Net()
    net.conv("a", "x", 4)
    net.put("s", "sigmoid", ["a"])
    assert quantize_with_report(net.done("s"), samples()).report.notes == []


def test_an_unknown_word():
    with pytest.raises(UnsupportedError, match=CHOICES):
        quantize(gated(), samples(), activation_substitution="soft")
