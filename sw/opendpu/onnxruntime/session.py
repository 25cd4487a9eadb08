# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's session without its library: where there is no C compiler, or an old version."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime

from opendpu.ir import Array
from opendpu.onnxruntime.executable import NotWorthItError, Session, executable
from opendpu.onnxruntime.options import PROVIDER, ProviderOptions
from opendpu_arch.errors import ModelFormatError, TensorError

logger = logging.getLogger("opendpu.onnxruntime")
CPU = "CPUExecutionProvider"


class InferenceSession:
    """A model on the DPU, and what the DPU does not compute in onnxruntime, with its interface.

    Takes what ``onnxruntime.InferenceSession`` takes; the model stays in onnxruntime, on the CPU,
    for the reasons that the execution provider has (a float model without calibration data).

    Parameters
    ----------
    path_or_bytes
        The file, or what is in one.
    sess_options
        Options of the session that computes a model that stays on the CPU.
    providers, provider_options
        As for onnxruntime; the options of ``VitisAIExecutionProvider`` are
        :class:`~opendpu.onnxruntime.ProviderOptions`. Without ``providers`` it is meant.

    Raises
    ------
    ModelFormatError, UnsupportedError, TensorError, TargetError
        See :func:`opendpu.api.compile_onnx`.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: Any = None,
        providers: Sequence[str | tuple[str, Mapping[str, str]]] | None = None,
        provider_options: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        from opendpu.onnxruntime.registration import named

        wanted = dict(named(providers or [PROVIDER], provider_options or ()))
        self._options = wanted
        self._session: Session | None = None
        # the model's own names, shapes and types, whoever computes it
        self._cpu = onnxruntime.InferenceSession(path_or_bytes, sess_options, [CPU])
        if PROVIDER in wanted:
            options = ProviderOptions.read(wanted[PROVIDER])
            try:
                found = executable(_model(path_or_bytes), options)
                self._session = Session(found, options.device)
            except NotWorthItError as reason:
                logger.warning("the model stays on the CPU: %s", reason)

    def get_inputs(self) -> list[Any]:
        """Return name, shape and type of each input."""
        return list(self._cpu.get_inputs())

    def get_outputs(self) -> list[Any]:
        """Return name, shape and type of each output."""
        return list(self._cpu.get_outputs())

    def get_modelmeta(self) -> Any:
        """Return what the model says of itself."""
        return self._cpu.get_modelmeta()

    def get_providers(self) -> list[str]:
        """Return who computes, first who is asked first."""
        return [PROVIDER, CPU] if self._session else [CPU]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of each provider."""
        return {name: self._options.get(name, {}) for name in self.get_providers()}

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Array]:
        """Return the outputs that are asked for; all of them for None or nothing.

        Raises
        ------
        TensorError
            An input is missing or unknown, or an output is unknown.
        """
        if self._session is None:
            found: list[Array] = self._cpu.run(output_names or None, input_feed, run_options)
            return found
        own = [value.name for value in self.get_outputs()]
        wanted = list(output_names or own)
        inputs = [value.name for value in self.get_inputs()]
        if unknown := sorted(set(wanted) - set(own)):
            raise TensorError(f"there is no output {unknown[0]!r}; there are {', '.join(own)}")
        if wrong := sorted(set(inputs) ^ set(input_feed)):
            raise TensorError(
                f"input {wrong[0]!r} is {'missing' if wrong[0] in inputs else 'unknown'}; "
                f"needed: {', '.join(inputs)}"
            )
        results = self._session.run({name: np.asarray(input_feed[name]) for name in inputs})
        return [results[name] for name in wanted]


def _model(given: str | os.PathLike[str] | bytes) -> str | os.PathLike[str] | onnx.ModelProto:
    if not isinstance(given, bytes):
        return given
    try:
        return onnx.load_model_from_string(given)
    except Exception as error:  # protobuf's errors have no common base
        raise ModelFormatError(f"the model's bytes are no ONNX: {error}") from None
