# SPDX-License-Identifier: Apache-2.0
"""The execution provider: which graphs it takes, how they are compiled and computed.

A graph is taken whole as soon as the DPU computes enough of it: what the DPU does not compute is in
the compiled model's CPU parts, which are sessions of onnxruntime of their own.
"""

import ctypes
import logging
from collections.abc import Callable, Sequence
from typing import Any

import onnx

from opendpu.ir import Array
from opendpu.onnxruntime import context
from opendpu.onnxruntime.abi import INVALID_ARGUMENT, OK, Api
from opendpu.onnxruntime.compiled_model import NodeArg
from opendpu.onnxruntime.executable import Executable, executable
from opendpu.onnxruntime.model import GraphReader
from opendpu.onnxruntime.options import PROVIDER, ProviderOptions
from opendpu.onnxruntime.parts import NO_NETWORK, parts_of
from opendpu.onnxruntime.running import Session
from opendpu.onnxruntime.sizes import NotWorthItError
from opendpu.onnxruntime.structs import COMPUTE, EP, Exported, FusionOptions
from opendpu_arch.errors import DPUError, GraphError

logger = logging.getLogger("opendpu.onnxruntime")

NAME = ctypes.create_string_buffer(PROVIDER.encode())
"""What onnxruntime calls the provider; it must stay where it is."""


def guarded(api: Api, function: Callable[..., Any]) -> Callable[..., int]:
    """Return a function for onnxruntime: a null status, or one with the error's message."""

    def call(*arguments: Any) -> int:
        try:
            function(*arguments)
        except DPUError as error:
            return api.status(f"{PROVIDER}: {error}", INVALID_ARGUMENT)
        except Exception as error:  # nothing may leave through C
            return api.status(f"{PROVIDER}: {type(error).__name__}: {error}")
        return OK

    return call


class Provider:
    """``OrtEp``: one for each session.

    Parameters
    ----------
    api
        The functions of onnxruntime.
    options
        What the session was given.
    context_options
        Whether, and how, a model with the compiled parts is written.
    """

    def __init__(
        self, api: Api, options: ProviderOptions, context_options: context.ContextOptions
    ) -> None:
        self.api = api
        self.options = options
        self.context_options = context_options
        self.reader = GraphReader(api)
        self._found: dict[frozenset[str], Executable | None] = {}
        self._inside: dict[frozenset[str], frozenset[str]] = {}
        self._fused: dict[int, FusedNode] = {}
        self.exported = Exported(
            EP,
            {
                "GetName": lambda _: ctypes.addressof(NAME),
                "GetCapability": guarded(api, self._capability),
                "Compile": guarded(api, self._compile),
                "ReleaseNodeComputeInfos": self._release_computes,
            },
        )

    def _capability(self, _: int, graph: int, support: int) -> None:
        """Take a graph's nodes, or leave them, and say why."""
        nodes = self.reader.nodes(graph)
        if not nodes or self.reader.is_nested(graph):
            return
        contexts = [node for node in nodes if self.reader.operator(node)[1] == context.OPERATOR]
        if contexts:
            for node in contexts:
                if context.is_ours(self.reader.attributes(node)):
                    self._take(support, [node])
            return
        key = self._key(graph)
        if key not in self._found:
            self._found[key] = self._executable(graph, key)
        if self._found[key]:
            inside = self._inside.get(key)
            self._take(
                support,
                nodes if inside is None
                else [n for n in nodes if inside & set(self.reader.node_names(n, "Outputs"))],
            )  # fmt: skip

    def _executable(self, graph: int, key: frozenset[str]) -> Executable | None:
        """Return a graph compiled; nothing, and say why, where it is better left alone."""
        try:
            if self.reader.is_of_numbers(graph):
                return executable(self._source(graph), self.options, self.reader.shapes(graph))
            return self._part(graph, key)
        except NotWorthItError as reason:
            label = self.reader.path(graph) or "the model"
            logger.warning("%s stays on the CPU: %s", label, reason)
            return None

    def _part(self, graph: int, key: frozenset[str]) -> Executable:
        """Return what is of numbers in a graph with other inputs or outputs, compiled."""
        model = self.reader.model(graph)
        for item in model.graph.input:
            if not item.HasField("type"):
                raise NotWorthItError(
                    f"input {item.name!r} is no tensor, and onnxruntime does not say what it is: "
                    "opendpu.onnxruntime.InferenceSession cuts such models"
                )
        parts = parts_of(model)
        if parts is None:
            raise NotWorthItError(NO_NETWORK)
        numbers = parts.numbers.graph
        heads = {item.name: NodeArg.of(item).shape for item in numbers.input}
        found = executable(parts.numbers, self.options, heads)
        self._inside[key] = frozenset(n for node in numbers.node for n in node.output if n)
        self._found[frozenset(item.name for item in numbers.output)] = found
        return found

    def _take(self, support: int, nodes: Sequence[int]) -> None:
        array = (ctypes.c_void_p * len(nodes))(*nodes)
        options = FusionOptions(self.exported.version, True)
        self.api.EpGraphSupportInfo_AddNodesToFuse(
            ctypes.c_void_p(support), array, ctypes.c_size_t(len(nodes)), ctypes.byref(options)
        )

    def _source(self, graph: int) -> str | onnx.ModelProto:
        """Return the user's own file; or, of a model from memory, what onnxruntime made of it."""
        return self.reader.path(graph) or self.reader.model(graph)

    def _key(self, graph: int) -> frozenset[str]:
        """Return what tells a graph from the others of a session, before and after it is fused."""
        return frozenset(self.reader.names(graph, "Outputs"))

    def _compile(
        self, _: int, graphs: Any, fused: Any, count: int, computes: Any, contexts: Any
    ) -> None:
        for index in range(count):
            nodes = self.reader.nodes(graphs[index])
            attributes = self.reader.attributes(nodes[0]) if len(nodes) == 1 else {}
            found: Executable | None
            if context.is_ours(attributes):
                found = context.read(attributes, self.reader.path(graphs[index]), self.options)
            else:
                found = self._found[self._key(graphs[index])]
            if found is None:
                raise GraphError("onnxruntime asks to compile a graph that was not taken")
            node = FusedNode(
                self.api,
                self.reader,
                Session(found, self.options),
                self.reader.names(graphs[index], "Inputs"),
                self.reader.names(graphs[index], "Outputs"),
            )
            self._fused[node.exported.address] = node
            computes[index] = node.exported.address
            if self.context_options.enabled and contexts:
                contexts[index] = context.create(
                    self.api, self.reader, fused[index], found, self.context_options
                )

    def _release_computes(self, _: int, computes: Any, count: int) -> None:
        for index in range(count):
            node = self._fused.pop(computes[index], None)
            if node:
                node.session.close()


class FusedNode:
    """``OrtNodeComputeInfo``: computes a graph that was taken."""

    def __init__(
        self,
        api: Api,
        reader: GraphReader,
        session: Session,
        inputs: Sequence[str],
        outputs: Sequence[str],
    ) -> None:
        self.api = api
        self.reader = reader
        self.session = session
        self._inputs = inputs
        self._outputs = outputs
        self.exported = Exported(
            COMPUTE,
            {
                "CreateState": self._create_state,
                "Compute": guarded(api, self._compute),
                "ReleaseState": lambda *_: None,
            },
        )

    @staticmethod
    def _create_state(_: int, __: int, state: Any) -> int:
        state[0] = None
        return OK

    def _compute(self, _: int, __: int, kernel: int) -> None:
        at = ctypes.c_void_p(kernel)
        arrays: dict[str, Array] = {}
        for index, name in enumerate(self._inputs):
            value = self.api.pointer("KernelContext_GetInput", at, ctypes.c_size_t(index))
            arrays[name] = self.reader.tensor(value)
        found = self.session.run(arrays)
        for index, name in enumerate(self._outputs):
            self._give(at, index, found[name])

    def _give(self, kernel: ctypes.c_void_p, index: int, array: Array) -> None:
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        value = self.api.pointer(
            "KernelContext_GetOutput",
            kernel,
            ctypes.c_size_t(index),
            shape,
            ctypes.c_size_t(array.ndim),
        )
        data = self.api.pointer("GetTensorMutableData", ctypes.c_void_p(value))
        if data and array.nbytes:
            ctypes.memmove(data, array.ctypes.data, array.nbytes)
