# SPDX-License-Identifier: Apache-2.0
"""What a plug-in has to offer."""

import abc
from collections.abc import Collection, Mapping

from xir import Graph, Subgraph


class Plugin(abc.ABC):
    """Takes ops of a quantized graph for an accelerator, and adds what its runner needs."""

    @abc.abstractmethod
    def get_plugin_name(self) -> str:
        """Return the name of the plug-in."""

    @abc.abstractmethod
    def get_device(self) -> str:
        """Return the attribute ``device`` of its subgraphs; not ``DPU`` or ``USER``."""

    @abc.abstractmethod
    def get_runner(self) -> Mapping[str, str]:
        """Return the attribute ``runner``: libraries for ``ref``, ``sim`` and ``run``."""

    @abc.abstractmethod
    def partition(self, graph: Graph) -> Collection[Subgraph]:
        """Return the subgraphs that the plug-in takes, children of the root.

        When this is called every op is a child of its own. Ops may be merged, see
        :class:`~opendpu.plugin.PluginHelper`, and the graph may be changed.
        """

    @abc.abstractmethod
    def compile(self, subgraph: Subgraph) -> None:
        """Set attributes of one of these subgraphs, which the compiled graph will have."""
