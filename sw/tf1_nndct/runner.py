# SPDX-License-Identifier: Apache-2.0
"""``IterativePruningRunner`` for a session's graph, with what it finds out in files below ``.vai``.

The guide's eval functions take frozen graphs. They are called in this process, with a default
graph of their own.
"""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opendpu.frontend.tensorflow.runtime import tf
from opendpu.ir import Array
from opendpu.pruning import Analysis, Plan, score_of
from opendpu.pruning.arguments import check_ratio, check_threshold, function, whole
from opendpu_arch.errors import UnsupportedError
from tf1_nndct.frozen import Graph, dimensions, frozen, graph_of
from tf1_nndct.numbering import analyze
from tf1_nndct.surgery import least_important, masked, masks_of, sizes_of, slim
from tf_nndct.analyzing import FOLDER, analyze_groups, chosen_widths, fingerprint_of

EvalFn = Callable[[Any], Any]


class IterativePruningRunner:
    """Prunes channels of a session's graph in place, by an analysis of single groups.

    Parameters
    ----------
    model_name
        What files are called.
    sess
        A ``tf.compat.v1.Session`` whose variables are initialized.
    input_specs
        ``tf.TensorSpec`` by input, ``input_1:0``.
    output_node_names
        Names of nodes; their channels stay.
    excludes
        Names of nodes whose channels stay.

    Raises
    ------
    UnsupportedError
        A name is not one of the graph's, or nothing of it can be pruned.
    """

    def __init__(
        self, model_name: str, sess: Any, input_specs: Mapping[str, Any],
        output_node_names: Sequence[str], excludes: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._name, self._session = model_name, sess
        self._specs, self._outputs = dict(input_specs), list(output_node_names)
        graph = self._graph()
        self._structure = analyze(graph, excludes)
        self._structure.dependencies.need_groups(model_name)
        self._fingerprint = _fingerprint(graph)

    def ana(
        self, eval_fn: EvalFn, gpu_ids: Sequence[str] = ("/GPU:0",), checkpoint_interval: int = 10
    ) -> None:
        """Find out what pruning single groups costs, and write it to ``.vai/<name>.sens``.

        What the file has already is not evaluated again, so an analysis that was interrupted goes
        on.

        Parameters
        ----------
        eval_fn
            ``eval_fn(frozen_graph_def)`` returns the score; the more the better.
        gpu_ids
            Taken, and of no effect.
        checkpoint_interval
            Evaluations between two writings.

        Raises
        ------
        UnsupportedError
            The function fails or returns no number.
        ModelFormatError
            The file is of another graph.
        """
        function("eval_fn", eval_fn)
        whole("checkpoint_interval", checkpoint_interval)
        path, known = self._path("sens"), Analysis(self._fingerprint)
        if path.is_file():
            known = Analysis.load(path, self._fingerprint)
        graph = self._graph()
        analyze_groups(
            known, self._structure, lambda widths: self._score(graph, widths, eval_fn), path,
            checkpoint_interval,
        )  # fmt: skip

    def prune(
        self, sparsity: float | None = None, threshold: float | None = None, max_attemp: int = 10
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        """Write zeros to the session's variables; they stay zero in training.

        Optimizers of ``tf.compat.v1.train`` hold them, where training operations are made behind
        this call (they apply the ``constraint`` of a variable).

        Parameters
        ----------
        sparsity
            The part of the multiply-accumulates that goes. Wins.
        threshold
            The part of the score that pruning a group alone may cost.
        max_attemp
            Taken, and of no effect: what is found is near enough at once.

        Returns
        -------
        What :meth:`get_slim_graph_def` needs: constants that say sizes, ``TensorProto`` by name;
        ones and zeros by the name of a variable or constant.

        Raises
        ------
        UnsupportedError
            An argument is out of range, or none says how much.
        ModelFormatError
            There is no analysis, or it is of another graph.
        """
        if sparsity is None and threshold is None:
            raise UnsupportedError(
                "say how much to prune: sparsity or threshold",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
        if sparsity is not None:
            check_ratio(sparsity, "sparsity")
        else:
            check_threshold(threshold)
        analysis = Analysis.load(self._path("sens"), self._fingerprint)
        widths = chosen_widths(self._structure, analysis, sparsity, threshold)
        graph = self._graph()
        removed = least_important(graph, self._structure, widths)
        amount = sparsity if sparsity is not None else threshold
        plan = Plan(self._fingerprint, removed, "macs", sparsity)
        plan.save(self._path(f"sparsity_{amount:g}.spec", "_"))
        masks = masks_of(graph, self._structure, removed)
        self._hold(masks)
        return sizes_of(graph, self._structure, removed), masks

    def get_slim_graph_def(
        self, shape_tensors: Mapping[str, Any] | None = None,
        masks: Mapping[str, Array] | None = None,
    ) -> Any:  # fmt: skip
        """Return a frozen graph of the session as it is now, without what masks have zeros for.

        Without arguments, it is the frozen graph, unpruned.

        Raises
        ------
        UnsupportedError
            A mask is of no constant of the graph, or of another shape.
        """
        return slim(frozen(self._session, self._outputs), shape_tensors or {}, masks or {})

    def _graph(self) -> Graph:
        return graph_of(frozen(self._session, self._outputs), self._specs, self._outputs)

    def _score(self, graph: Graph, widths: Mapping[str, int], eval_fn: EvalFn) -> float:
        removed = least_important(graph, self._structure, widths)
        definition = masked(graph.definition, masks_of(graph, self._structure, removed))
        with tf.Graph().as_default():
            return score_of(definition, eval_fn)

    def _hold(self, masks: Mapping[str, Array]) -> None:
        """Write zeros to variables, and let optimizers write them again behind each step."""
        with self._session.graph.as_default():
            for variable in tf.compat.v1.global_variables():
                mask = masks.get(variable.op.name)
                if mask is None:
                    continue
                value = self._session.run(variable)
                variable.load((value * mask).astype(value.dtype), self._session)
                before = getattr(variable, "_opendpu_unmasked", variable.constraint)
                variable._opendpu_unmasked = before
                variable._constraint = _keeping(before, mask)

    def _path(self, suffix: str, separator: str = ".") -> pathlib.Path:
        return FOLDER / f"{self._name}{separator}{suffix}"


def _keeping(before: Any, mask: Array) -> Callable[[Any], Any]:
    def keep(value: Any) -> Any:
        return (value if before is None else before(value)) * tf.cast(mask, value.dtype)

    return keep


def _fingerprint(graph: Graph) -> str:
    """Return what tells a graph from others: its operators and the shapes of their constants."""
    nodes = [
        (name, node.op, dimensions(node) if node.op == "Const" else ())
        for name, node in graph.nodes.items()
    ]
    return fingerprint_of(nodes)
