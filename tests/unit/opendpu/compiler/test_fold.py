# SPDX-License-Identifier: Apache-2.0
"""What has no effect disappears, and the results stay."""

from graph_draws import Quantized, compile_and_check

from opendpu.compiler.fold import fold


def test_ops_without_effect_disappear() -> None:
    q = Quantized()
    x = q.data(6, 6, 4)
    q.graph.add_fix("again_fix", x, q.graph[x].quantization)
    q.op("same", "reshape", (6, 6, 4), ["again_fix"], shape=[1, 6, 6, 4])
    q.op("one", "concat", (6, 6, 4), ["same"], axis=3)
    q.reshape("one", "flat", 6, 6, 4)
    y = q.conv("flat_fix", "conv", 5)
    q.op("unused", "relu", (4, 4, 5), [y])
    folded = fold(q.done(y))
    kinds = [node.kind for node in folded if node.kind not in ("const", "fix")]
    assert kinds == ["data", "conv2d"]
    assert len(q.graph.nodes) > len(folded.nodes), "the graph given stays as it is"
    compile_and_check(q.done(y))


def test_outputs_keep_their_names() -> None:
    q = Quantized()
    q.op("same", "identity", (6, 6, 4), [q.data(6, 6, 4)])
    assert "same" in fold(q.done("same")).nodes


def test_a_second_rounding_stays() -> None:
    q = Quantized()
    x = q.conv(q.data(6, 6, 4), "conv", 5, point=4)
    y = q.fix(x, 2)
    graph = fold(q.done(y))
    assert {"conv_fix", "conv_fix_fix"} <= set(graph.nodes)


def test_inputs_that_nothing_reads_stay_integers() -> None:
    q = Quantized()
    x, unread = q.data(6, 6, 4), q.data(3, 5, 2, name="unread")
    y = q.conv(x, "conv", 5)
    q.op("dead", "relu", (3, 5, 2), [unread])
    compiled = compile_and_check(q.done(y))
    kinds = {op.get_type() for op in compiled.graph.get_ops() if not op.get_input_ops()}
    assert "data" not in kinds
    names = [op.get_name() for op in compiled.graph.get_ops() if op.get_type() == "data-fix"]
    assert len(names) == 2
