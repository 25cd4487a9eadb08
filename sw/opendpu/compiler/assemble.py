# SPDX-License-Identifier: Apache-2.0
"""Pass: partition and programs to the compiled XIR graph, in the form of AMD's compiler."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

import xir
from opendpu.compiler.fixed import COMPUTE, CONSTANT, USER, is_fixed, tensor_of
from opendpu.compiler.partition.value import Part, Partition
from opendpu.compiler.plan import INPUT_REG, OUTPUT_REG, WEIGHTS_REG, WORKSPACE_REG, Plan
from opendpu.compiler.program import Program
from opendpu.compiler.provenance import layer_attributes
from opendpu.compiler.tensor_attrs import locate, place, quantization, set_attrs
from opendpu.compiler.workload import workload
from opendpu.ir import FixedGraph, Graph, Node
from opendpu.ir.xir_bridge import constant_attributes, data_type_of, fix_attributes, set_origin
from opendpu_arch.target import Target

RUNNERS = {
    "DPU": {"ref": "libvart-cpu-runner.so", "run": "libvart-dpu-runner.so",
            "sim": "libvart-sim-runner.so"},
    "CPU": dict.fromkeys(("ref", "run", "sim"), "libvart-cpu-runner.so"),
}  # fmt: skip
CONTEXTS = {
    WEIGHTS_REG: ("CONST", "CONST", "W0"),
    WORKSPACE_REG: ("DATA", "WORKSPACE", "D0"),
    INPUT_REG: ("DATA", "INTERFACE", "D0"),
    OUTPUT_REG: ("DATA", "INTERFACE", "D0"),
}
"""Context type, context type of version 2 and hardware segment of every address register."""
COMPILER = "opendpu"


def assemble(
    source: FixedGraph,
    partition: Partition,
    programs: Mapping[int, Program],
    target: Target,
    *,
    stripped: bool = True,
) -> xir.Graph:
    """Return the compiled graph; ``programs`` are those of the DPU parts, by part number.

    Constants of DPU parts are ``stripped``, as AMD's compiler does, where the segment has their
    values.
    """
    work = _Assembly(source, stripped=stripped)
    for number, part in enumerate(partition.parts):
        if part.device == "USER":
            work.user(part.nodes[0])
        elif part.device == "DPU":
            work.dpu(part.nodes, programs[number], target)
        else:
            attrs = part.attrs or {"runner": RUNNERS["CPU"]}
            work.plain(part.nodes, part.device, attrs, part.name)
    return work.finish()


def outline(source: Graph, partition: Partition | None = None) -> xir.Graph:
    """Return the ops of a graph as XIR graph, with a subgraph a part but without programs.

    Without a partition there is one subgraph for the CPU, and one for each input.
    """
    if partition is None:
        users = [n.name for n in source if n.kind in USER]
        others = tuple(n.name for n in source if n.kind not in (*USER, *CONSTANT))
        parts = [Part(device="USER", nodes=(name,)) for name in users]
        parts += [Part(device="CPU", nodes=others)] * bool(others)
        partition = Partition(parts=tuple(parts), reasons={})
    work = _Assembly(source)
    for part in partition.parts:
        if part.device == "USER":
            work.user(part.nodes[0])
        else:
            work.plain(part.nodes, part.device, {})
    return work.finish()


@dataclasses.dataclass(frozen=True)
class _Group:
    """Ops of a child of the root, leaf by leaf; ``leaf`` says that it is one itself."""

    name: str
    leaf: bool
    leaves: list[tuple[str, list[xir.Op]]]
    attrs: dict[str, Any]


class _Assembly:
    """One run of the pass: ops so far, and the leaf of the tree that each belongs to."""

    def __init__(self, source: Graph, *, stripped: bool = False) -> None:
        self.source = source
        self.stripped = stripped
        self.users = source.consumer_map()
        self.graph = xir.Graph(source.name)
        self.ops: dict[str, xir.Op] = {}
        """By node, the op whose result is for everybody outside the node's own part."""
        self.groups: list[_Group] = []
        self.work = [0, 0]

    def user(self, name: str) -> None:
        """Add an input of the graph."""
        op = self._create(self.source[name], {}, "USER")
        self.ops[name] = op
        self._group([(f"subgraph_{op.get_name()}", [op])], {"device": "USER"})

    def plain(
        self, names: tuple[str, ...], device: str, attrs: Mapping[str, Any], called: str = ""
    ) -> None:
        """Add the ops of a part without a program, and constants that nobody before needed."""
        ops: list[xir.Op] = []
        for name in names:
            node = self.source[name]
            inputs = {}
            for arg, sources in node.inputs.items():
                for source in sources:
                    if source not in self.ops and self.source[source].kind in CONSTANT:
                        self.ops[source] = self._create(self.source[source], {}, device)
                        ops.append(self.ops[source])
                inputs[arg] = [self.ops[s] for s in sources]
            self.ops[name] = self._create(node, inputs, device)
            ops.append(self.ops[name])
        self._group(
            [(f"subgraph_{names[0]}", ops)], {**attrs, "device": device}, leaf=True, name=called
        )

    def dpu(self, names: tuple[str, ...], program: Program, target: Target) -> None:
        """Add the ops of a DPU part between uploads and downloads, and its program."""
        own: dict[str, xir.Op] = {}
        leaves: list[tuple[str, list[xir.Op]]] = []
        plan = program.plan
        sizes = {part: values.size for part, values in plan.network.layer_constants().items()}
        work = [0, 0]
        for name in plan.network.inputs:
            node, source = self.source[name], self.ops[name]
            upload = self._border(node, source, "upload")
            place(upload, plan, name)
            own[name] = upload
            leaves.append((upload.get_name(), [upload]))
        for name in names:
            node = self.source[name]
            ops, inputs = [], {}
            for arg, sources in node.inputs.items():
                for used in sources:
                    if self.source[used].kind in CONSTANT and used not in own:
                        part = f"{name}/{arg}"
                        constant = self._constant(self.source[used], plan, part, sizes.get(part))
                        own[used] = constant
                        ops.append(constant)
                inputs[arg] = [own[s] for s in sources]
            op = self._create(node, inputs, "DPU", outside=name in plan.network.outputs)
            place(op, plan, name)
            if node.kind in COMPUTE:
                amounts = workload(node, self.source, target)
                work = [a + b for a, b in zip(work, amounts, strict=True)]
                set_attrs(op, workload=amounts[0], workload_on_arch=amounts[1])
            own[name] = op
            leaves.append((op.get_name(), [*ops, op]))
        for name in plan.network.outputs:
            download = self._border(self.source[name], own[name], "download")
            self.ops[name] = download
            leaves.append((download.get_name(), [download]))
        leaves = [(f"subgraph_{name}", ops) for name, ops in leaves]
        self.work = [a + b for a, b in zip(self.work, work, strict=True)]
        attrs = _program_attrs(program, [name for name, _ in leaves], target)
        called = {name: own[name].get_name() for name in names}
        origins = {layer.name: layer.op for layer in plan.network.layers}
        layers = layer_attributes(program.schedule.layers, origins, called)
        attrs |= {**layers, "workload": work[0], "workload_on_arch": work[1]}
        self._group(leaves, attrs)

    def _constant(self, node: Node, plan: Plan, part: str, size: int | None) -> xir.Op:
        """Add a constant of a DPU part; it is stripped where the segment has it as it is.

        Lowering may have made something else of it, ``size`` bytes now, such as the taps of every
        phase of a transposed convolution.
        """
        assert node.value is not None
        at, data = plan.constants.get(part), np.ascontiguousarray(node.value).tobytes()
        if at is None or len(data) != size or plan.blob[at : at + size] != data:
            return self._create(node, {}, "DPU")
        constant = self._create(node, {}, "DPU", stripped=self.stripped)
        locate(constant, WEIGHTS_REG, at, 1)
        return constant

    def finish(self) -> xir.Graph:
        """Return the graph with its tree of subgraphs."""
        root = self.graph.get_root_subgraph()
        taken: set[str] = set()
        named = []
        for group in self.groups:
            every = [op for _, ops in group.leaves for op in ops]
            compute = [o for o in every if o.get_type() not in ("upload", "const-fix", "const")]
            name = group.name or f"subgraph_{compute[0].get_name()}"
            while name in taken:
                name += "_"
            taken.add(name)
            named.append((name, every))
        children = root.split(named)
        for child, group in zip(children, self.groups, strict=True):
            if group.attrs["device"] == "DPU" and not group.leaf:
                child.split(group.leaves)
            for key, value in group.attrs.items():
                child.set_attr(key, value)
        for key in ("inspector", "profile"):
            root.set_attr(key, False)
        root.set_attr("reserve_const_data", not self.stripped)
        for key in ("prefetch", "hd_opt"):  # always: loads run ahead, stripes are cut by cost
            root.set_attr(key, True)
        root.set_attr("workload", self.work[0])
        root.set_attr("workload_on_arch", self.work[1])
        self.graph.set_attr("origin", COMPILER)
        self.graph.set_attr("return_ops", [self.ops[n].get_name() for n in self.source.outputs])
        return self.graph

    def _group(
        self,
        leaves: list[tuple[str, list[xir.Op]]],
        attrs: dict[str, Any],
        *,
        leaf: bool = False,
        name: str = "",
    ) -> None:
        self.groups.append(_Group(name, leaf, leaves, attrs))

    def _name(self, wanted: str) -> str:
        name, number = wanted, 0
        while self.graph.get_op(name) is not None:
            number += 1
            name = f"{wanted}_{number}"
        return name

    def _border(self, node: Node, source: xir.Op, kind: str) -> xir.Op:
        """Add an upload or a download; on the far side the tensor has its own name."""
        name = self._name(f"{source.get_name()}_{kind}_0")
        op = self.graph.create_op(name, kind, {}, {"input": [source]})
        op.set_attr("device", "DPU")
        tensor = op.get_output_tensor()
        own = tensor_of(node)
        tensor.rename(own if kind == "download" else f"{own}_upload_0")
        if is_fixed(node):
            quantization(tensor, node.quantization)
        return op

    def _create(
        self,
        node: Node,
        inputs: Mapping[str, list[xir.Op]],
        device: str,
        *,
        stripped: bool = False,
        outside: bool = False,
    ) -> xir.Op:
        attrs = node.attrs | fix_attributes(node)
        if node.value is not None:
            attrs |= constant_attributes(node.value)
            attrs["data_type"] = data_type_of(node.type)
            attrs["data"] = b"" if stripped else attrs["data"]
        definition = self.graph.get_definition(node.kind)
        for needed in definition.attrs:
            if needed.name not in attrs and needed.occurrence.required:
                attrs |= {"shape": list(node.shape)} if needed.name == "shape" else {}
                known = {"data_type": data_type_of(node.type)}
                attrs |= known if needed.name == "data_type" else {}
        if any(definition.arg(arg) is None for arg in inputs):  # a kind that XIR does not have
            inputs = {"input": [op for ops in inputs.values() for op in ops]}
        op = self.graph.create_op(self._name(node.name), node.kind, attrs, inputs)
        op.set_attr("device", device)
        set_origin(op, node.origin)
        tensor = op.get_output_tensor()
        if is_fixed(node) or outside:
            tensor.rename(f"{tensor_of(node)}_download_0" if outside else tensor_of(node))
        if is_fixed(node):
            quantization(tensor, node.quantization)
        return op


def _program_attrs(program: Program, order: list[str], target: Target) -> dict[str, Any]:
    """Return the attributes of a DPU subgraph; ``order`` are the names of its leaves."""
    plan = program.plan
    sizes = {r: plan.segment_bytes.get(r, 0) for r in CONTEXTS}
    return {
        "device": "DPU",
        "dpu_name": target.name,
        "dpu_fingerprint": target.fingerprint,
        "mc_code": program.schedule.fields.encode(),
        "mc_code_preload": b"",
        "debug_mode": "null",
        "if_prefetch": False,
        "children_topological_sort": order,
        "runner": RUNNERS["DPU"],
        "reg_id_to_context_type": {f"REG_{r}": c[0] for r, c in CONTEXTS.items()},
        "reg_id_to_context_type_v2": {f"REG_{r}": c[1] for r, c in CONTEXTS.items()},
        "reg_id_to_hw_segment": {f"REG_{r}": c[2] for r, c in CONTEXTS.items()},
        "reg_id_to_parameter_value": {f"REG_{WEIGHTS_REG}": plan.blob},
        "reg_id_to_size": {f"REG_{r}": size for r, size in sizes.items()},
    }
