# SPDX-License-Identifier: Apache-2.0
"""What breaks a rule does not leave its pass: the error names pass, op and rule."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graph_draws import Quantized

from opendpu.compiler.banks import Region
from opendpu.compiler.network import LayerRange
from opendpu.compiler.partition import Part, Partitioned
from opendpu.compiler.passes import PASSES
from opendpu.compiler.pipeline import compile_with_report
from opendpu.compiler.plan import CascadePlan
from opendpu.compiler.planner.cascade.costs import Cascade
from opendpu.compiler.planner.proposal import Restrictions
from opendpu.compiler.verify import Verifier
from opendpu.ir import Quantization, TensorType
from opendpu_arch.errors import PassError
from opendpu_arch.target import Target

TARGET = Target.from_name("B512")


def values() -> dict[str, Any]:
    """Return what every pass makes of a small graph with an op for the CPU."""
    q = Quantized()
    x = q.conv(q.data(8, 8, 5), "a", 9, pad=1, act="relu")
    q.op("soft", "softmax", (8, 8, 9), [x], axis=-1)
    y = q.conv(q.fix("soft", 6), "b", 3)
    z = q.add([y, q.conv(x, "c", 3)], "sum")
    found: dict[str, Any] = {}
    compile_with_report(
        q.done(z, x), TARGET, passed=lambda name, value: found.setdefault(name, value)
    )
    return found


def test_every_pass_shows_its_result_and_passes() -> None:
    found = values()
    assert list(found) == [one.name for one in PASSES]
    for name, value in found.items():
        Verifier(TARGET)(name, value)


def change(graph: Any, name: str, **attrs: Any) -> None:
    for key, value in attrs.items():
        setattr(graph[name], key, value)


def without_last_part(value: Partitioned) -> Partitioned:
    parts = dataclasses.replace(value.partition, parts=value.partition.parts[:-1])
    return Partitioned(value.graph, parts)


def backwards(value: Partitioned) -> Partitioned:
    user, *others = value.partition.parts
    parts = dataclasses.replace(value.partition, parts=(user, *reversed(others)))
    return Partitioned(value.graph, parts)


def doubled(value: Partitioned) -> Partitioned:
    last = value.partition.parts[-1]
    more = Part(device="CPU", nodes=last.nodes[-1:])
    parts = dataclasses.replace(value.partition, parts=(*value.partition.parts, more))
    return Partitioned(value.graph, parts)


def with_layer(value: Any, **fields: Any) -> Any:
    first = dataclasses.replace(value.layers[0], **fields)
    return dataclasses.replace(value, layers=(first, *value.layers[1:]))


def moved(value: Any) -> Any:
    region = dataclasses.replace(value.layers[0].output, base=TARGET.bank_depth - 1, words=9)
    return with_layer(value, output=region)


def elsewhere(value: Any) -> Any:
    memory = dict(value.memory)
    name = next(iter(memory))
    memory[name] = dataclasses.replace(memory[name], address=1 << 27)
    return dataclasses.replace(value, memory=memory)


def with_cascade(value: Any, *order: tuple[int, int, int]) -> Any:
    """Make the first layer a cascade with this issue order."""
    cascade = CascadePlan(layers=LayerRange(0, 0), tiles=({},), issue_order=order)
    return dataclasses.replace(value, cascades=(cascade,))


def rows_twice(value: Any) -> Any:
    height = value.network.features[value.layers[0].layer.output].height
    return with_cascade(value, (0, 0, height), (0, 0, 1))


def rows_missing(value: Any) -> Any:
    return with_cascade(value, (0, 0, 1))


def proposing(value: Any, *layers: LayerRange) -> Any:
    return dataclasses.replace(value, cascades=tuple(Cascade(span, 1) for span in layers))


def again(value: Any) -> Any:
    """Propose a cascade that was ruled out."""
    apart = Restrictions(apart=frozenset({LayerRange(0, 1)}))
    revision = dataclasses.replace(value.revision, restrictions=apart)
    return proposing(dataclasses.replace(value, revision=revision), LayerRange(0, 1))


def on_chip(value: Any, **bases: int) -> Any:
    """Keep feature maps on chip, alive at the same time, 10 words each from ``bases`` on."""
    regions = {
        name: Region(bank_group=0, base=base, words=10, stride=1, capacity=1, whole=True)
        for name, base in bases.items()
    }
    together = dict.fromkeys(bases, LayerRange(0, 1))
    return dataclasses.replace(value, regions=regions, live_ranges=together)


def spilled_on_chip(value: Any) -> Any:
    proposal = value.proposal
    revision = dataclasses.replace(
        proposal.revision, restrictions=Restrictions(spilled=frozenset({"a"}))
    )
    value = dataclasses.replace(value, proposal=dataclasses.replace(proposal, revision=revision))
    return on_chip(value, a=0)


def with_tokens(value: Any) -> Any:
    first, *others = value.commands
    made = dataclasses.replace(first.instruction, dpdon=15)
    first = first._replace(instruction=made)
    return dataclasses.replace(value, commands=(first, *others))


def program_without_end(value: Any) -> Any:
    nobody = (0,) * len(value.schedule.issued)
    return dataclasses.replace(value, schedule=dataclasses.replace(value.schedule, signals=nobody))


FLOAT = TensorType((1, 8, 8, 9))
EMPTY = FLOAT.with_shape((1, 0, 8, 9))
FAR = TensorType.int8(FLOAT.shape, 300)
ODD = dataclasses.replace(FAR, quantization=Quantization((0.3,)))

BROKEN: list[tuple[str, Callable[[Any], Any], str]] = [
    ("fold", lambda d: change(d, "a", inputs={"input": ["b"]}), r"'a'.*'inputs-first'.*'b'"),
    ("fold", lambda d: d.outputs.append("no"), "'no' breaks the rule 'outputs-exist'"),
    ("fold", lambda d: change(d, "a_relu_fix", type=FLOAT), "'a_relu_fix' breaks.*'quantization'"),
    ("fold", lambda d: change(d, "a_w", value=np.zeros(3)), "'a_w' breaks.*'constant-value'"),
    ("fold", lambda d: change(d, "a", type=EMPTY), "'a' breaks the rule 'shape'"),
    ("legalize", lambda d: change(d, "a", type=FLOAT), "'int8-or-float'"),
    ("legalize", lambda d: change(d, "a_w", value=np.zeros(3, np.float32)), "'int8-constants'"),
    ("legalize", lambda d: change(d, "a", type=FAR), "'a' breaks the rule 'fix-point'"),
    ("legalize", lambda d: change(d, "a", type=ODD), "'a' breaks the rule 'fix-point'"),
    ("partition", without_last_part, "'every-op': it is in no part"),
    ("partition", backwards, "'order': part . needs"),
    ("partition", doubled, "'one-part': it is in parts"),
    ("lower", lambda n: dataclasses.replace(n, layers=n.layers[:-1]), "'outputs-are-made'"),
    ("lower", lambda n: with_layer(n, op=""), "'a' breaks the rule 'known-op'"),
    ("lower", lambda n: with_layer(n, source="no"), "'a' breaks the rule 'known-feature': 'no'"),
    ("fuse", lambda n: dataclasses.replace(n, inputs=()), "'inputs-first'"),
    ("fuse", lambda n: with_layer(n, bias=np.zeros(77, np.int8)), "'bias-per-output': 77 values"),
    ("tile", moved, "after pass 'tile': 'a' breaks the rule 'inside-bank'"),
    ("tile", rows_twice, "'a' breaks the rule 'rows-in-order'"),
    ("tile", rows_missing, "'a' breaks the rule 'every-row': its stripes make 1 rows of "),
    ("tile", lambda t: dataclasses.replace(t, layers=t.layers[:-1]), "'every-layer': only "),
    ("cascade", lambda p: proposing(p, LayerRange(0, 99)), "'cascades-apart': of "),
    ("cascade", lambda p: proposing(p, LayerRange(0, 0)), "'cascades-apart': of "),
    ("cascade", again, "'cascade 0..1' breaks the rule 'restrictions-kept'"),
    ("residency", spilled_on_chip, "'restrictions-kept': it goes through DDR, but is on chip"),
    ("residency", lambda r: on_chip(r, a=0, b=9), "'a' breaks the rule 'own-words'"),
    ("residency", lambda r: on_chip(r, a=1 << 20), "'a' breaks the rule 'inside-bank'"),
    ("allocate", elsewhere, "DDR_ADDR_ASSIGNMENT_FAILED.* 'inside-segment': address 134217728"),
    ("emit", with_tokens, "command 0 .*'no-tokens-yet'"),
    ("schedule", program_without_end, "XCOM_ACGEN_ERROR.*the program breaks the rule DeadlockEr"),
    ("assemble", lambda g: g.set_attr("return_ops", ["no"]), "'no' breaks the rule 'outputs-exist"),
]


@pytest.mark.parametrize(("name", "change", "message"), BROKEN)
def test_broken_values_are_refused(name: str, change: Callable[[Any], Any], message: str) -> None:
    value = values()[name]
    made = change(value)
    with pytest.raises(PassError, match=message) as caught:
        Verifier(TARGET)(name, value if name in ("fold", "legalize", "assemble") else made)
    assert f"after pass {name!r}" in str(caught.value)
    assert str(caught.value).startswith("[XCOM_")


def test_what_has_no_verifier_is_refused() -> None:
    with pytest.raises(PassError, match="pass 'emit' made a int, which has no verifier"):
        Verifier(TARGET)("emit", 3)


def test_a_subgraph_that_lacks_what_runners_need() -> None:
    graph = values()["assemble"]
    (dpu, *_) = [s for s in graph.get_root_subgraph().get_children() if s.has_attr("mc_code")]
    dpu.set_attr("dpu_fingerprint", 5)
    with pytest.raises(PassError, match="'fingerprint': it is not 0x"):
        Verifier(TARGET)("assemble", graph)
    dpu.set_attr("device", 3)
    with pytest.raises(PassError, match="'device': its device is 3"):
        Verifier(TARGET)("assemble", graph)
