# SPDX-License-Identifier: Apache-2.0
"""Outputs that are no tensors of numbers: text, lists, dictionaries, which no DPU gives.

A model with such outputs ends, for us, at the last tensors of numbers that they are made of.
"""

from collections.abc import Iterable, Mapping

import onnx

from opendpu.frontend.last_numbers import behind_numbers
from opendpu.frontend.model_file import operator_name, reads
from opendpu.frontend.opsets import import_own

NOTE = "output {name!r} is {kind} in the file ({operator}{classes}): here it is {made_of}"
CLASSES_SHOWN = 4
_KINDS = {
    "sequence_type": "a list", "map_type": "a dictionary", "optional_type": "optional",
    "sparse_tensor_type": "a sparse tensor", "opaque_type": "opaque", "tensor_type": "text",
}  # fmt: skip
_DICTIONARIES = "a list of dictionaries"
_KEYS = ("classlabels_int64s", "classlabels_strings", "values_strings")
"""Attributes that hold what the numbers stand for."""


def is_numbers(kind: onnx.TypeProto) -> bool:
    """Tell whether a type is a tensor of numbers, or not said."""
    which = kind.WhichOneof("value")
    return which is None or (
        which == "tensor_type" and kind.tensor_type.elem_type != onnx.TensorProto.STRING
    )


def with_number_outputs(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Return a model whose outputs are tensors of numbers, and a sentence for each that was not.

    An output that is made of one tensor gives that its name. Outputs that are computed from inputs
    or constants alone stay as they are, and so do those that depend on something else than numbers
    from the start. A model without others is returned as it is.
    """
    types = _types(model) if any(not is_numbers(item.type) for item in model.graph.output) else {}
    producers = {name: node for node in model.graph.node for name in node.output if name}
    made_of = _made_of(model, types, producers)
    if not made_of:
        return model, []
    declared: dict[str, onnx.ValueInfoProto] = {}
    for item in model.graph.output:  # a name may come twice, and say something else each time
        if item.name not in declared or not is_numbers(item.type):
            declared[item.name] = item
    last = dict.fromkeys(name for names in made_of.values() for name in names)
    outputs = [item for name, item in declared.items() if name not in made_of]
    outputs += [_value(name, types) for name in last if name not in declared]
    made = _part(model, outputs)
    renamed: dict[str, str] = {}
    for name, sources in made_of.items():
        if len(sources) == 1 and sources[0] not in declared:
            renamed.setdefault(sources[0], name)
    for item in made.graph.output:
        if item.name in renamed:
            name = renamed[item.name]
            made.graph.node.append(onnx.helper.make_node("Identity", [item.name], [name]))
            item.name = name
    if renamed:
        import_own(made)
    return made, [_note(declared[n], producers[n], sources) for n, sources in made_of.items()]


def _made_of(
    model: onnx.ModelProto,
    types: Mapping[str, onnx.TypeProto],
    producers: Mapping[str, onnx.NodeProto],
) -> dict[str, list[str]]:
    """Return, for outputs that are no tensors of numbers, the last such that they are made of."""
    given = {item.name for item in model.graph.input}
    given |= {item.name for item in model.graph.initializer}
    found = {
        item.name: _last_numbers(item.name, types, producers, given)
        for item in model.graph.output
        if not is_numbers(item.type)
    }
    return {name: last for name, last in found.items() if last}


def _note(output: onnx.ValueInfoProto, node: onnx.NodeProto, sources: list[str]) -> str:
    return NOTE.format(
        name=output.name, kind=_kind(output.type), operator=operator_name(node),
        classes=_classes(node),
        made_of=f"tensor{'s' if len(sources) > 1 else ''} {', '.join(map(repr, sources))}",
    )  # fmt: skip


def _types(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """Return the types of values, as far as the file or onnx's inference knows them."""
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # onnx raises what its C++ part happened to raise; the front end says why
        graph = model.graph
    found = {item.name: item.type for item in graph.value_info}
    for item in (*model.graph.input, *model.graph.output):
        found[item.name] = item.type
    return found


def _last_numbers(
    name: str,
    types: Mapping[str, onnx.TypeProto],
    producers: Mapping[str, onnx.NodeProto],
    given: set[str],
) -> list[str]:
    """Return the computed tensors of numbers behind which a value is no number.

    Nothing if there are none, or one of the values is none from the start.
    """
    found = behind_numbers(
        [name], producers, lambda one: is_numbers(types.get(one, onnx.TypeProto()))
    )
    if not producers.keys() >= set(found.others):
        return []
    return [one for one in found.last if one not in given]


def _value(name: str, types: Mapping[str, onnx.TypeProto]) -> onnx.ValueInfoProto:
    """Return a value with its element type; its shape is that of the part that makes it."""
    made = onnx.ValueInfoProto(name=name)
    if name in types:
        made.type.CopyFrom(types[name])
    return made


def _part(model: onnx.ModelProto, outputs: Iterable[onnx.ValueInfoProto]) -> onnx.ModelProto:
    """Return what of a model is needed for some outputs; its inputs are the same."""
    made = onnx.ModelProto(
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        opset_import=model.opset_import,
        functions=model.functions,
        metadata_props=model.metadata_props,
        graph=onnx.GraphProto(name=model.graph.name, input=model.graph.input, output=outputs),
    )
    graph = made.graph
    needed = {item.name for item in graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            needed |= set(reads(node))
            kept.append(node)
    graph.node.extend(reversed(kept))
    whole = model.graph
    graph.initializer.extend(item for item in whole.initializer if item.name in needed)
    graph.sparse_initializer.extend(
        item for item in whole.sparse_initializer if item.values.name in needed
    )
    graph.value_info.extend(item for item in whole.value_info if item.name in needed)
    graph.quantization_annotation.extend(
        item for item in whole.quantization_annotation if item.tensor_name in needed
    )
    return made


def _kind(kind: onnx.TypeProto) -> str:
    which = kind.WhichOneof("value") or ""
    if which == "sequence_type" and kind.sequence_type.elem_type.HasField("map_type"):
        return _DICTIONARIES
    return _KINDS[which]


def _classes(node: onnx.NodeProto) -> str:
    """Return what the numbers stand for, or the first of many."""
    keys: list[str] = []
    for item in node.attribute:
        if item.name in _KEYS:
            keys += [str(number) for number in item.ints]
            keys += [repr(text.decode("utf-8", "replace")) for text in item.strings]
    more = ", …" if len(keys) > CLASSES_SHOWN else ""
    return f" of {', '.join(keys[:CLASSES_SHOWN])}{more}" if keys else ""
