# SPDX-License-Identifier: Apache-2.0
"""SavedModel folders as float graphs."""

import pathlib
import warnings
from collections.abc import Sequence

from opendpu.frontend.binding import Sizes
from opendpu.frontend.input_values import Values
from opendpu.frontend.tensorflow.importer import load_nodes
from opendpu.frontend.tensorflow.runtime import common_scope, frozen, tf
from opendpu.ir import FloatGraph
from opendpu.ops.inference import reason_of
from opendpu_arch.errors import ModelFormatError, UnsupportedError

SIGNATURE = "serving_default"


def load_saved_model(
    path: str | pathlib.Path,
    input_shapes: Sizes | None = None,
    *,
    input_values: Values | None = None,
    signature: str | None = None,
) -> FloatGraph:
    """Convert a signature of a SavedModel to a float graph.

    Inputs and outputs have the names that the signature gives them. Without its name, it is the one
    that serving takes by default, or the only one.

    Raises
    ------
    ModelFormatError
        The folder cannot be read.
    UnsupportedError
        There is no such signature, or several of which none is the default, or as of
        :func:`opendpu.frontend.tensorflow.importer.load_nodes`.
    """
    path = pathlib.Path(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = tf.saved_model.load(str(path))
    except Exception as error:  # TensorFlow raises what its parts happen to raise
        reason = reason_of(error)
        raise ModelFormatError(f"{path} cannot be read as SavedModel: {reason}") from error
    function = model.signatures[_chosen(str(path), list(model.signatures), signature)]
    nodes, placeholders, results = frozen(function, str(path))
    given = function.structured_input_signature[1]
    names = {spec.name.partition(":")[0]: name for name, spec in given.items()}
    outputs, scope = sorted(function.structured_outputs), common_scope(nodes)
    return load_nodes(
        nodes, str(path), path.name, input_shapes, input_values=input_values,
        inputs={node: names.get(node, node) for node in placeholders},
        outputs=dict(zip(outputs, results, strict=True)),
        shorten=lambda name: name.removeprefix(scope),
    )  # fmt: skip


def _chosen(path: str, names: Sequence[str], wanted: str | None) -> str:
    """Return the name of the signature that is wanted, or else that by default, or the only one."""
    if wanted is None and len(names) == 1:
        return names[0]
    if (wanted or SIGNATURE) in names:
        return wanted or SIGNATURE
    hint = "" if wanted or not names else f"; choose one: --signature NAME, or {path}::NAME"
    raise UnsupportedError(
        f"{path} has no signature {wanted or SIGNATURE!r}, but: {', '.join(names) or 'none'}{hint}"
    )
