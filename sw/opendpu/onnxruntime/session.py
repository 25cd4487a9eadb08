# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's session without its library: where there is no C compiler, or an old version."""

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnxruntime

from opendpu.ir import Array
from opendpu.onnxruntime import compiled_model, context
from opendpu.onnxruntime.binding import IOBinding, as_ort_value
from opendpu.onnxruntime.compiled_model import NodeArg
from opendpu.onnxruntime.executable import Executable, executable
from opendpu.onnxruntime.identity import loaded, model_of
from opendpu.onnxruntime.joined import Joined
from opendpu.onnxruntime.options import PROVIDER, ProviderOptions
from opendpu.onnxruntime.parts import NO_NETWORK, parts_of
from opendpu.onnxruntime.port import array_of, is_numbers
from opendpu.onnxruntime.running import Session
from opendpu.onnxruntime.sizes import NotWorthItError
from opendpu_arch.errors import DPUError, TensorError, UnsupportedError

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
    kwargs
        As for onnxruntime (``disabled_optimizers``, …), of the session that computes a model that
        stays on the CPU.

    Raises
    ------
    ModelFormatError, UnsupportedError, TensorError, TargetError
        See :func:`opendpu.api.compile_onnx`.
    """

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: Any = None,
        providers: str | Sequence[str | tuple[str, Mapping[str, str]]] | None = None,
        provider_options: Sequence[Mapping[str, str]] | None = None,
        **kwargs: Any,
    ) -> None:
        self._given = path_or_bytes
        self._session: Session | Joined | None = None
        self._session_options = sess_options
        self._context = context.ContextOptions.of_session(sess_options)
        self._forbids_cpu = context.forbids_cpu(sess_options)
        # the model's own names, shapes and types, whoever computes it
        try:
            with context.switched_off(sess_options):
                self._cpu = onnxruntime.InferenceSession(
                    path_or_bytes, sess_options, [CPU], **kwargs
                )
        except Exception:  # onnxruntime's errors have no common base
            self._cpu = compiled_model.read(path_or_bytes, sess_options)
            if self._cpu is None:
                raise
        self.set_providers(providers, provider_options)

    def set_providers(
        self,
        providers: str | Sequence[str | tuple[str, Mapping[str, str]]] | None = None,
        provider_options: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        """Let others compute the model; arguments are those of the constructor."""
        from opendpu.onnxruntime.registration import named

        path_or_bytes, before = self._given, self._session
        wanted = dict(named(providers or [PROVIDER], provider_options or ()))
        self._options, self._session = wanted, None
        if before is not None:
            before.close()
        if PROVIDER in wanted:
            options = ProviderOptions.read(wanted[PROVIDER])
            try:
                self._session = self._on_dpu(path_or_bytes, options)
            except NotWorthItError as reason:
                if self._forbids_cpu:
                    raise DPUError(
                        "session.disable_cpu_ep_fallback is set, but the model stays on the CPU: "
                        f"{reason}"
                    ) from None
                logger.warning("the model stays on the CPU: %s", reason)

    def _on_dpu(
        self, given: str | os.PathLike[str] | bytes, options: ProviderOptions
    ) -> Session | Joined:
        """Return what computes the model: the DPU's part, and where there are texts, sequences or
        dictionaries at its ends, onnxruntime before and behind it."""
        ends = (*self._cpu.get_inputs(), *self._cpu.get_outputs())
        if isinstance(self._cpu, compiled_model.CompiledModel) or all(map(is_numbers, ends)):
            return Session(self._executable(given, options), options)
        if self._context.enabled:
            raise UnsupportedError(
                "ep.context_enable: this session writes models of compiled parts alone, and the "
                "model has inputs or outputs that are no tensors of numbers: call "
                "opendpu.onnxruntime.register(), and use onnxruntime.InferenceSession"
            )
        model = loaded(given)
        parts = parts_of(model, self._session_options)
        if parts is None:
            raise NotWorthItError(NO_NETWORK)
        heads = {item.name: NodeArg.of(item).shape for item in parts.numbers.graph.input}
        with context.switched_off(self._session_options):
            return Joined(
                parts,
                Session(executable(parts.numbers, options, heads), options),
                self._session_options,
            )

    def _executable(
        self, given: str | os.PathLike[str] | bytes, options: ProviderOptions
    ) -> Executable:
        """Return what is compiled, and write it into a model where that is asked for."""
        if isinstance(self._cpu, compiled_model.CompiledModel):
            return self._cpu.executable(options)
        model = model_of(given)
        found = executable(model, options, {one.name: one.shape for one in self._cpu.get_inputs()})
        if self._context.enabled:
            compiled_model.write(found, model, self._context)
            self._context = context.ContextOptions()  # once
        return found

    def get_inputs(self) -> list[Any]:
        """Return name, shape and type of each input."""
        return list(self._cpu.get_inputs())

    def get_outputs(self) -> list[Any]:
        """Return name, shape and type of each output."""
        return list(self._cpu.get_outputs())

    def get_overridable_initializers(self) -> list[Any]:
        """Return the weights that an input of the same name may replace; the DPU has them fixed."""
        return list(self._cpu.get_overridable_initializers())

    def get_input_memory_infos(self) -> list[Any]:
        """Return where inputs are read: the host's memory."""
        return list(self._cpu.get_input_memory_infos())

    def get_output_memory_infos(self) -> list[Any]:
        """Return where outputs are written: the host's memory."""
        return list(self._cpu.get_output_memory_infos())

    def get_session_options(self) -> Any:
        """Return the options of the session that computes what stays on the CPU."""
        return self._cpu.get_session_options()

    def get_profiling_start_time_ns(self) -> int:
        """Return when onnxruntime began to profile; the DPU's profile is ``vaitrace``'s."""
        return int(self._cpu.get_profiling_start_time_ns())

    def end_profiling(self) -> str:
        """Return the file of onnxruntime's profile, which has what the CPU computes."""
        return str(self._cpu.end_profiling())

    def enable_fallback(self) -> None:
        """Do nothing: a run that fails says so, and changes no provider."""

    def disable_fallback(self) -> None:
        """Do nothing, as :meth:`enable_fallback`."""

    def io_binding(self) -> IOBinding:
        """Return a binding of inputs and outputs to memory, for :meth:`run_with_iobinding`."""
        return IOBinding(
            *([one.name for one in x] for x in (self.get_inputs(), self.get_outputs()))
        )

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
    ) -> list[Any]:
        """Return the outputs that are asked for; all of them for None or nothing.

        Parameters
        ----------
        output_names
            Names of outputs.
        input_feed
            Arrays, lists of numbers or ``OrtValue`` by name.
        run_options
            ``terminate`` refuses the run; other options are of what the CPU computes.

        Raises
        ------
        TensorError
            An input is missing or unknown or of another type, or an output is unknown; or there is
            no dictionary of inputs, or no list of outputs.
        DPUError
            ``run_options.terminate`` is set.
        """
        if self._session is None:
            found: list[Any] = self._cpu.run(output_names or None, input_feed, run_options)
            return found
        if isinstance(output_names, str):
            raise TensorError(f"output_names is {output_names!r}, but must be a list of names")
        if not isinstance(input_feed, Mapping):
            raise TensorError(
                f"input_feed is {type(input_feed).__name__}, but must be a dictionary of arrays"
            )
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
        if run_options is not None and run_options.terminate:
            raise DPUError("the run was not begun: terminate is set in its RunOptions")
        given = {one.name: array_of(one, input_feed[one.name]) for one in self.get_inputs()}
        results = self._session.run(given, wanted)
        return [results[name] for name in wanted]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[Sequence[Array] | None, Any, str], None],
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """Run in a thread of its own; ``callback(results, user_data, error)`` is called there.

        ``error`` is the message of what failed, and results are nothing then; else it is empty.
        """

        def work() -> None:
            try:
                found = self.run(output_names, input_feed, run_options)
            except Exception as error:  # the caller's thread is elsewhere by now
                callback([], user_data, str(error))
            else:
                callback(found, user_data, "")

        threading.Thread(target=work, daemon=True).start()

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[Any]:
        """Return outputs as ``OrtValue``, given inputs that are such; else as :meth:`run`."""
        found = self.run(output_names, input_dict_ort_values, run_options)
        names = output_names or [value.name for value in self.get_outputs()]
        return [as_ort_value(name, one) for name, one in zip(names, found, strict=True)]

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Run with what :meth:`io_binding` has bound."""
        if not isinstance(iobinding, IOBinding):
            raise TensorError(
                f"iobinding is {type(iobinding).__name__}, but must be what io_binding() of this "
                "session gives"
            )
        iobinding.take(self.run(iobinding.wanted(), iobinding.feeds(), run_options))
