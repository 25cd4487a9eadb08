# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operators for a whole attention, or layer of a transformer, written out.

Modules choose them in evaluation mode when nobody asks for gradients. ONNX has no counterpart. A
mask of numbers is added to the scores, as the modules say, where these operators leave out whatever
is not 0.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

_PADDING, _EVERYTHING = 1, 2
"""Kinds of masks: by sample and place; by sample, head and places. The other one is by places."""


def write_out(graph: torch.fx.GraphModule) -> None:
    """Replace these operators in a graph of TorchDynamo, in place."""
    calls = [node for node in graph.graph.nodes if node.target in _MEANINGS]
    for call in calls:
        tracer = torch.fx.proxy.GraphAppendingTracer(graph.graph)
        given: Any = (call.args, call.kwargs)
        args, kwargs = torch.fx.node.map_aggregate(given, _proxies_by(tracer))
        with graph.graph.inserting_before(call):
            results = _MEANINGS[call.target](*args, **kwargs)
        _replace(graph.graph, call, results)
    if calls:
        graph.recompile()


def _proxies_by(tracer: torch.fx.proxy.GraphAppendingTracer) -> Callable[[Any], Any]:
    return lambda one: torch.fx.Proxy(one, tracer) if isinstance(one, torch.fx.Node) else one


def _replace(graph: torch.fx.Graph, call: torch.fx.Node, results: Any) -> None:
    if isinstance(results, torch.fx.Proxy):
        results.node.meta.update(call.meta)
        call.replace_all_uses_with(results.node)
    for user in list(call.users):
        assert user.target is operator.getitem, user.format_node()
        found = results[user.args[1]].node
        found.meta.update(user.meta)
        user.replace_all_uses_with(found)
        graph.erase_node(user)
    graph.erase_node(call)


def _attention(
    query: Any, key: Any, value: Any, width: int, heads: int, weight: Any, bias: Any,
    last_weight: Any, last_bias: Any, mask: Any = None, need_weights: bool = True,
    average_attn_weights: bool = True, mask_type: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Return what ``_native_multi_head_attention`` stands for, of (batch, places, channels)."""
    firsts = {id(one.node): one.transpose(0, 1) for one in (query, key, value)}
    first, second, third = (firsts[id(one.node)] for one in (query, key, value))
    scores = None if mask_type == _PADDING else mask
    if scores is not None and mask_type == _EVERYTHING:
        scores = scores.flatten(0, 1)
    found = functional.multi_head_attention_forward(
        first, second, third, width, heads, weight, bias, None, None, False, 0.0, last_weight,
        last_bias, training=False, key_padding_mask=mask if mask_type == _PADDING else None,
        need_weights=need_weights, attn_mask=scores, average_attn_weights=average_attn_weights,
    )  # fmt: skip
    return found[0].transpose(0, 1), found[1]


def _layer(
    source: Any, width: int, heads: int, weight: Any, bias: Any, last_weight: Any, last_bias: Any,
    use_gelu: bool, norm_first: bool, eps: float, scale_1: Any, shift_1: Any, scale_2: Any,
    shift_2: Any, wide_weight: Any, wide_bias: Any, narrow_weight: Any, narrow_bias: Any,
    mask: Any = None, mask_type: int | None = None,
) -> Any:  # fmt: skip
    """Return what ``_transformer_encoder_layer_fwd`` stands for."""

    def attended(x: Any) -> Any:
        return _attention(
            x, x, x, width, heads, weight, bias, last_weight, last_bias, mask, False, True,
            mask_type,
        )[0]  # fmt: skip

    def fed(x: Any) -> Any:
        wide = functional.linear(x, wide_weight, wide_bias)
        act = functional.gelu if use_gelu else functional.relu
        return functional.linear(act(wide), narrow_weight, narrow_bias)

    def first(x: Any) -> Any:
        return functional.layer_norm(x, (width,), scale_1, shift_1, eps)

    def second(x: Any) -> Any:
        return functional.layer_norm(x, (width,), scale_2, shift_2, eps)

    if norm_first:
        x = source + attended(first(source))
        return x + fed(second(x))
    x = first(source + attended(source))
    return second(x + fed(x))


_MEANINGS: dict[Any, Callable[..., Any]] = {
    torch._native_multi_head_attention: _attention,
    torch._transformer_encoder_layer_fwd: _layer,
}
