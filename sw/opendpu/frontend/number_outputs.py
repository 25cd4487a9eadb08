# SPDX-License-Identifier: Apache-2.0
"""Outputs that are no tensors of numbers: text, lists, dictionaries, which no DPU gives.

A model with such outputs is cut where their last numbers are. The part before has only tensors of
numbers as outputs, and is what is compiled; who wants what the file says gives them to the part
behind, which onnxruntime computes.
"""

import dataclasses
from collections.abc import Iterable, Mapping

import onnx

from opendpu.frontend.model_file import operator_name, reads
from opendpu.frontend.opsets import newest_opset
from opendpu.ops.foreign import DEFAULT_DOMAINS

NOTE = "output {name!r} is {kind} in the file ({operator}{classes}): here it is {made_of}"
CLASSES_SHOWN = 4
_KINDS = {
    "sequence_type": "a list", "map_type": "a dictionary", "optional_type": "optional",
    "sparse_tensor_type": "a sparse tensor", "opaque_type": "opaque", "tensor_type": "text",
}  # fmt: skip
_DICTIONARIES = "a list of dictionaries"
_KEYS = ("classlabels_int64s", "classlabels_strings", "values_strings")
"""Attributes that hold what the numbers stand for."""


@dataclasses.dataclass(frozen=True)
class Cut:
    """A model in two parts.

    Parameters
    ----------
    numbers
        The model with tensors of numbers as outputs.
    others
        What is computed from them: its outputs are those that the first part lacks. Its inputs are
        outputs of the first part, or inputs of the model.
    made_of
        For each output that the first part lacks, those of its outputs that it is computed from.
    """

    numbers: onnx.ModelProto
    others: onnx.ModelProto
    made_of: Mapping[str, list[str]]


def is_numbers(kind: onnx.TypeProto) -> bool:
    """Tell whether a type is a tensor of numbers, or not said."""
    which = kind.WhichOneof("value")
    return which is None or (
        which == "tensor_type" and kind.tensor_type.elem_type != onnx.TensorProto.STRING
    )


def cut_at_numbers(model: onnx.ModelProto) -> Cut | None:
    """Return a model cut before outputs that are no tensors of numbers; nothing if it has none.

    Outputs that are computed from inputs or constants alone stay as they are, and so does an output
    that depends on something else than numbers from the start.
    """
    odd = [item for item in model.graph.output if not is_numbers(item.type)]
    if not odd:
        return None
    types = _types(model)
    producers = {name: node for node in model.graph.node for name in node.output if name}
    given = {item.name for item in model.graph.input}
    given |= {item.name for item in model.graph.initializer}
    made_of, behind = {}, set()
    for item in odd:
        found = _last_numbers(item.name, types, producers, given)
        if found is not None:
            made_of[item.name] = found[0]
            behind |= found[1]
    if not made_of:
        return None
    borders = list(dict.fromkeys(name for names in made_of.values() for name in names))
    kept = [item for item in model.graph.output if item.name not in made_of]
    known = {item.name for item in kept}
    fresh = [_value(name, types) for name in borders if name not in known]
    own = [node for node in model.graph.node if behind & set(node.output)]
    outside = [item for item in model.graph.input if any(item.name in reads(n) for n in own)]
    return Cut(
        numbers=_part(model, model.graph.node, model.graph.input, [*kept, *fresh]),
        others=_part(
            model, own, [*outside, *(_value(name, types) for name in borders)],
            [item for item in odd if item.name in made_of],
        ),
        made_of=made_of,
    )  # fmt: skip


def with_number_outputs(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Return a model whose outputs are tensors of numbers, and a sentence for each that was not.

    An output that is made of one tensor gives that its name. A model that has none such is returned
    as it is.
    """
    cut = cut_at_numbers(model)
    if cut is None:
        return model, []
    graph = cut.numbers.graph
    producers = {name: node for node in model.graph.node for name in node.output}
    declared = {item.name: item for item in model.graph.output}
    renamed, notes = {}, []
    for name, sources in cut.made_of.items():
        made_of = f"{'tensor' if len(sources) == 1 else 'tensors'} {', '.join(map(repr, sources))}"
        alone = len(sources) == 1 and sources[0] not in renamed and sources[0] not in declared
        if alone:
            renamed[sources[0]] = name
        node = producers[name]
        notes.append(
            NOTE.format(
                name=name, kind=_kind(declared[name].type), operator=operator_name(node),
                classes=_classes(node), made_of=made_of,
            )
        )  # fmt: skip
    for item in graph.output:
        if item.name in renamed:
            name = renamed[item.name]
            graph.node.append(onnx.helper.make_node("Identity", [item.name], [name]))
            item.name = name
    if renamed and not any(item.domain in DEFAULT_DOMAINS for item in model.opset_import):
        cut.numbers.opset_import.append(onnx.helper.make_opsetid("", newest_opset()))
    return cut.numbers, notes


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
) -> tuple[list[str], set[str]] | None:
    """Return the tensors of numbers behind which a value is no number, and the values from there.

    Nothing if there are none, or one of the values is none from the start.
    """
    borders: dict[str, None] = {}
    behind: set[str] = set()
    open_values = [name]
    while open_values:
        one = open_values.pop()
        if one in behind or one in borders:
            continue
        if one != name and is_numbers(types.get(one, onnx.TypeProto())):
            if one not in given:
                borders[one] = None
            continue
        if one not in producers:
            return None
        behind.add(one)
        open_values += reversed(reads(producers[one]))
    return (list(borders), behind) if borders else None


def _value(name: str, types: Mapping[str, onnx.TypeProto]) -> onnx.ValueInfoProto:
    """Return a value with its element type; its shape is that of the part that makes it."""
    made = onnx.ValueInfoProto(name=name)
    if name in types:
        made.type.CopyFrom(types[name])
    return made


def _part(
    model: onnx.ModelProto,
    nodes: Iterable[onnx.NodeProto],
    inputs: Iterable[onnx.ValueInfoProto],
    outputs: Iterable[onnx.ValueInfoProto],
) -> onnx.ModelProto:
    """Return what of a model is needed for some outputs."""
    made = onnx.ModelProto(
        ir_version=model.ir_version,
        producer_name=model.producer_name,
        producer_version=model.producer_version,
        opset_import=model.opset_import,
        functions=model.functions,
        metadata_props=model.metadata_props,
        graph=onnx.GraphProto(name=model.graph.name, input=inputs, output=outputs),
    )
    graph = made.graph
    needed = {item.name for item in graph.output}
    kept = []
    for node in reversed(list(nodes)):
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
