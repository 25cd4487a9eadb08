# SPDX-License-Identifier: Apache-2.0
"""Finding and merging the subgraphs that a plug-in wants.

Where the guide's interface has sets, these functions take any collection and return lists in the
order of the graph, so that results do not depend on hashes.
"""

from collections.abc import Callable, Collection, Iterable

from opendpu.plugin.template import GraphTemplate
from opendpu_arch.errors import GraphError
from xir import Graph, Subgraph


class PluginHelper:
    """Functions for :meth:`opendpu.plugin.Plugin.partition`.

    A subgraph is unassigned until it has the attribute ``device``.
    """

    @staticmethod
    def filter_by_name(graph: Graph, name: str) -> Subgraph:
        """Return the unassigned child that holds the op called ``name``, or is called so.

        Raises
        ------
        GraphError
            There is none.
        """
        for child in _unassigned(graph):
            if child.get_name() == name or child.has_op(name):
                return child
        raise GraphError(f"graph {graph.get_name()!r} has no unassigned subgraph for {name!r}")

    @staticmethod
    def filter_by_type(graph: Graph, type: str) -> list[Subgraph]:
        """Return the unassigned children that hold an op of this type."""
        return [
            child
            for child in _unassigned(graph)
            if any(op.get_type() == type for op in child.get_ops())
        ]

    @staticmethod
    def filter_by_template(graph: Graph, template: GraphTemplate) -> list[Subgraph]:
        """Return the ops that match a template, each match merged into one subgraph.

        Where matches overlap, or cannot be merged because ops in between are not part of them,
        the later ones are left out.
        """
        found = []
        for op in graph.toposort():
            matched = template.match(op)
            if matched is None:
                continue
            free = _unassigned(graph)
            children = [c for c in free if any(c.has_op(o) for o in matched.values())]
            covered = [o for child in children for o in child.get_ops()]
            if set(covered) != set(matched.values()):
                continue
            merged = PluginHelper.merge_subgraph(children)
            if len(merged) == 1:
                found += merged
        return [child for child in found if child in graph.get_root_subgraph().get_children()]

    @staticmethod
    def filter(
        graph: Graph, func: Callable[[list[Subgraph]], Collection[Subgraph]]
    ) -> list[Subgraph]:
        """Return what ``func`` picks from the unassigned children."""
        return list(func(_unassigned(graph)))

    @staticmethod
    def merge_subgraph(subgraph_list: Iterable[Subgraph]) -> list[Subgraph]:
        """Merge children of one parent into as few as can be, and return these.

        Two are not merged where data would go out of the merged one and come back.

        Raises
        ------
        GraphError
            The subgraphs have different parents.
        """
        chosen = list(dict.fromkeys(subgraph_list))
        parents = {id(child.get_parent()) for child in chosen}
        if len(parents) > 1 or (chosen and chosen[0].get_parent() is None):
            raise GraphError(
                "only children of one parent can be merged: "
                f"{', '.join(child.get_name() for child in chosen)}"
            )
        if not chosen:
            return []
        parent = chosen[0].get_parent()
        assert parent is not None
        ordered = [child for child in parent.toposort_child_subgraph() if child in chosen]
        groups: list[list[Subgraph]] = []
        for child in ordered:
            for group in groups:
                if _stays_acyclic(
                    parent, [*(g for g in groups if g is not group), [*group, child]]
                ):
                    group.append(child)
                    break
            else:
                groups.append([child])
        return [g[0] if len(g) == 1 else parent.merge_children(g) for g in groups]


def _unassigned(graph: Graph) -> list[Subgraph]:
    children = graph.get_root_subgraph().toposort_child_subgraph()
    return [child for child in children if not child.has_attr("device")]


def _stays_acyclic(parent: Subgraph, groups: list[list[Subgraph]]) -> bool:
    """Tell whether the children can still run one after the other with these groups merged."""
    label = {child: child.get_name() for child in parent.get_children()}
    names = {child: ("child", id(child)) for child in label}
    for number, group in enumerate(groups):
        names.update(dict.fromkeys(group, ("group", number)))
    owner = {op: names[child] for child in label for op in child.get_ops()}
    needs: dict[tuple[str, int], set[tuple[str, int]]] = {name: set() for name in names.values()}
    for op, own in owner.items():
        for user in op.get_fanout_ops():
            if user in owner and owner[user] != own:
                needs[owner[user]].add(own)
    done: set[tuple[str, int]] = set()
    while True:
        ready = [name for name, sources in needs.items() if name not in done and sources <= done]
        if not ready:
            return len(done) == len(needs)
        done.update(ready)
