# SPDX-License-Identifier: Apache-2.0
"""Runs plug-ins on a quantized graph, and keeps their ops away from the passes that follow.

An op that a plug-in has taken has the number of its claim, and is called ``plugin:<kind>`` while
the graph is folded and legalized, so that no rule takes it, or a ``fix``, for what it is.
"""

import dataclasses
import importlib
import importlib.util
import pathlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

import xir
from opendpu.ir import Graph
from opendpu.plugin import Plugin
from opendpu_arch.errors import PluginError

PREFIX = "plugin:"
RESERVED = ("DPU", "USER", "CPU")
"""Devices that plug-ins cannot have."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """A subgraph that a plug-in has taken."""

    plugin: str
    name: str
    device: str
    ops: tuple[str, ...]
    attrs: Mapping[str, Any]


def load_plugin(name: str) -> Plugin:
    """Return the plug-in of a module or ``.py`` file.

    Raises
    ------
    PluginError
        It cannot be imported, or its ``get_plugin`` returns no :class:`~opendpu.plugin.Plugin`.
    """
    try:
        module = _load_file(pathlib.Path(name)) if name.endswith(".py") else (
            importlib.import_module(name)
        )  # fmt: skip
    except Exception as error:
        raise PluginError(
            f"plug-in {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    make = getattr(module, "get_plugin", None)
    if not callable(make):
        raise PluginError(f"plug-in {name!r} has no function 'get_plugin'")
    plugin = make()
    if not isinstance(plugin, Plugin):
        raise PluginError(
            f"plug-in {name!r}: get_plugin returns a {type(plugin).__name__}, "
            "but must return an opendpu.plugin.Plugin"
        )
    return plugin


def _load_file(path: pathlib.Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"opendpu_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_plugins(graph: xir.Graph, names: Iterable[str]) -> tuple[xir.Graph, tuple[Claim, ...]]:
    """Run plug-ins one after the other; return the graph as they left it, and what they took.

    The graph given is not changed.

    Raises
    ------
    PluginError
        A plug-in cannot be loaded, fails, or takes what it cannot have.
    """
    plugins = [load_plugin(name) for name in names]
    if not plugins:
        return graph, ()
    graph = xir.Graph.from_bytes(graph.to_bytes())
    root = graph.get_root_subgraph()
    if root.is_leaf:
        root.create_child_subgraph()
    claims: list[Claim] = []
    for plugin in plugins:
        label = f"plug-in {plugin.get_plugin_name()!r}"
        device = plugin.get_device()
        if device in RESERVED or not device:
            raise PluginError(f"{label} is for device {device!r}, but must have one of its own")
        for subgraph in _call(label, "partition", plugin.partition, graph):
            if subgraph not in root.get_children():
                raise PluginError(
                    f"{label} returns {subgraph!r}, which is no child of the root subgraph"
                )
            if subgraph.has_attr("device"):
                owner = subgraph.get_attr("device")
                raise PluginError(
                    f"{label} returns {subgraph.get_name()!r}, which is for device {owner!r}"
                )
            _call(label, "compile", plugin.compile, subgraph)
            subgraph.set_attr("runner", dict(plugin.get_runner()))
            subgraph.set_attr("device", device)
            claims.append(_claim(plugin, subgraph))
    return graph, tuple(claims)


def _call(label: str, method: str, function: Any, value: Any) -> Any:
    try:
        return function(value)
    except Exception as error:
        raise PluginError(f"{label} failed in {method}: {type(error).__name__}: {error}") from error


def _claim(plugin: Plugin, subgraph: xir.Subgraph) -> Claim:
    ops = [op for op in subgraph.toposort() if op.get_type() != "const"]
    inputs = [op.get_name() for op in ops if op.get_type() == "data"]
    if inputs or not ops:
        raise PluginError(
            f"plug-in {plugin.get_plugin_name()!r} takes {subgraph.get_name()!r}, which "
            + (f"holds the input {inputs[0]!r} of the graph" if inputs else "computes nothing")
        )
    return Claim(
        plugin=plugin.get_plugin_name(), name=subgraph.get_name(), device=plugin.get_device(),
        ops=tuple(op.get_name() for op in ops), attrs=dict(subgraph.get_attrs()),
    )  # fmt: skip


def set_aside(graph: Graph, claims: Iterable[Claim]) -> None:
    """Mark the ops of claims, and give them kinds that no pass knows."""
    for number, claim in enumerate(claims):
        for name in claim.ops:
            node = graph[name]
            node.kind, node.claim = f"{PREFIX}{node.kind}", number


def bring_back(graph: Graph) -> dict[str, int]:
    """Give the ops of claims their kinds again; return the claims by name of the op."""
    found = {}
    for node in graph:
        if node.claim is not None:
            node.kind = node.kind.removeprefix(PREFIX)
            found[node.name] = node.claim
    return found
