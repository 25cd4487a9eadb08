# SPDX-License-Identifier: Apache-2.0
"""A plug-in of the compiler: softmax, and scalings in front of it, for an accelerator of its own.

opendpu compile MODEL.onnx ... --options '{"plugins": "docs/examples/softmax_plugin.py"}'
"""

from collections.abc import Collection, Mapping

from opendpu.plugin import GraphTemplate, Plugin, PluginHelper
from xir import Graph, Subgraph


class SoftmaxPlugin(Plugin):
    """Takes every softmax, together with a multiplication that only it reads."""

    def get_plugin_name(self) -> str:
        """Return the name of the plug-in."""
        return "softmax"

    def get_device(self) -> str:
        """Return what the subgraphs are for."""
        return "SMFC"

    def get_runner(self) -> Mapping[str, str]:
        """Return the libraries that run them."""
        return dict.fromkeys(("ref", "sim", "run"), "libsmfc-runner.so")

    def partition(self, graph: Graph) -> Collection[Subgraph]:
        """Take scaled softmax first, then what is left."""
        template = GraphTemplate("scaled softmax")
        scale = template.create_op_template("scale", "mul")
        template.create_op_template("softmax", "softmax", {"input": [scale]})
        scaled = PluginHelper.filter_by_template(graph, template)
        for subgraph in scaled:
            subgraph.set_attr("scaled", True)
        single = PluginHelper.filter(
            graph,
            lambda children: [
                child
                for child in children
                if child not in scaled and child.get_ops()[0].get_type() == "softmax"
            ],
        )
        return [*scaled, *single]

    def compile(self, subgraph: Subgraph) -> None:
        """Tell the runner how many values a row has."""
        (result,) = subgraph.get_output_tensors()
        subgraph.set_attr("smfc_columns", result.dims[-1])


def get_plugin() -> Plugin:
    """Return the plug-in; the compiler calls this."""
    return SoftmaxPlugin()
