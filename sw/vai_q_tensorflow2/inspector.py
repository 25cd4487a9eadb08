# SPDX-License-Identifier: Apache-2.0
"""``VitisInspector``: which operators of a Keras model a DPU takes, and why not the others."""

import functools
import os
import pathlib
from typing import Any

from opendpu import api
from opendpu.frontend.binding import asking
from opendpu.frontend.tensorflow.keras_model import load_keras
from opendpu.inspect import Inspection, inspect_graph, report
from opendpu.inspect.picture import picture
from opendpu.inspect.text import summary_lines
from opendpu_arch import outputs
from opendpu_arch.errors import TargetError, UnsupportedError
from vai_q_tensorflow2 import strategy as strategies
from vai_q_tensorflow2.shapes import input_shapes, left_open

Path = str | os.PathLike[str]


class VitisInspector:
    """Inspects Keras models for a DPU.

    Parameters
    ----------
    target
        Name, fingerprint or ``arch.json`` of the DPU; the guide both allows none and refuses it:
        here it is needed, because limits are those of a DPU.

    Raises
    ------
    TargetError
        There is no such target.
    """

    def __init__(self, target: str | None = None) -> None:
        code = "QUANTIZER_TF2_INVALID_TARGET"
        if target is None:
            raise TargetError("VitisInspector needs a target: DPUCZDX8G_ISA1_B4096, say", code=code)
        try:
            self._target = api.find_target(str(target))
        except TargetError as error:
            raise TargetError(error.message, code=code) from error

    def inspect_model(
        self, model: Any, input_shape: Any = None, dump_model: bool = True,
        dump_model_file: Path = "inspect_model.h5", plot: bool = True,
        plot_file: Path = "model.svg", dump_results: bool = True,
        dump_results_file: Path = "inspect_results.txt", verbose: int = 0, **kwargs: Any,
    ) -> Inspection:  # fmt: skip
        """Write the model, a picture and a report, and print a summary.

        Parameters
        ----------
        model
            The float model.
        input_shape
            For inputs with free dimensions, with or without batch.
        dump_model, dump_model_file
            Whether and where the model is saved.
        plot, plot_file
            Whether and where a picture goes: ``.svg`` or ``.png``.
        dump_results, dump_results_file
            Whether and where the report goes.
        verbose
            Above 0, every operator is printed.
        kwargs
            Settings of a quantize strategy, which have no effect on where operators run.

        Raises
        ------
        DPUError
            As of :func:`opendpu.frontend.tensorflow.keras_model.load_keras`; a file that cannot be
            written, or a picture of another format.
        """
        strategies.updated(strategies.default_strategy("pof2s"), kwargs)
        suffix = pathlib.Path(plot_file).suffix
        if plot and suffix not in (".svg", ".png"):
            raise UnsupportedError(f"plot_file ends in {suffix!r}, but must end in .svg or .png")
        with asking(functools.partial(left_open, "inspect_model")):
            graph = load_keras(model, input_shapes(model, input_shape))
        found = inspect_graph(graph, self._target)
        if dump_model:
            model.save(dump_model_file)
        if plot:
            drawn = picture(found)
            outputs.write(plot_file, drawn.svg() if suffix == ".svg" else drawn.png())
        written = str(dump_results_file) if dump_results else ""
        if dump_results:
            outputs.write(dump_results_file, report(found, file=written))
        print("\n".join(summary_lines(found, file=written, every=verbose > 0)))  # noqa: T201
        return found
