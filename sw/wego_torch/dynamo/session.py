# SPDX-License-Identifier: Apache-2.0
"""What the graphs of one ``torch.compile`` have in common: options, and one calibration."""

import contextlib
import dataclasses
import inspect
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

import numpy as np
import torch

from opendpu.frontend.pytorch.capture import tracing
from wego_torch import messages
from wego_torch.dynamo.options import Options
from wego_torch.dynamo.skipped import say_skipped

_sessions: "weakref.WeakKeyDictionary[Any, Session]" = weakref.WeakKeyDictionary()


class Session:
    """One call of ``torch.compile``.

    Parameters
    ----------
    options
        Those of the user.
    call
        Calls what the user has compiled, through the compiler.
    parameters
        How many arguments it takes from a batch.
    names
        Which of a batch's keywords it takes; all of them if nothing.
    """

    def __init__(
        self,
        options: Options,
        call: Callable[..., Any] | None,
        parameters: int,
        names: frozenset[str] | None = None,
    ) -> None:
        self.options = options
        self._calibrating: int | None = None
        self.calibrated = False
        self.shared: dict[tuple[str, ...], Any] = {}
        """What graphs of the same code have in common, by what they do."""
        self._modes: set[bool] = set()
        """Whether the data was given with gradients enabled, see :meth:`calibrate_as_called`."""
        self.again = False
        """Whether the only batch is given a second time, see :meth:`calibrate`."""
        self._call, self._parameters, self._names = call, parameters, names
        self._by: set[int] = set()
        """Numbers of samples that the data was given at a time for, see :meth:`calibrate_by`."""
        self._lock = threading.RLock()

    @property
    def calibrating(self) -> bool:
        """Whether this thread is calling the module with the calibration data; others wait."""
        return self._calibrating == threading.get_ident()

    def calibrate(self) -> None:
        """Call the compiled module with the calibration data, once, while its graphs look on.

        A module may keep something from its first call, such as a grid of coordinates: then it
        computes another graph from the second one on. The only batch is given again, for those.

        Raises
        ------
        WegoError
            There is no data, or it does not fit.
        """
        if self.calibrated:
            return
        with tracing(), self._lock:  # graphs are traced while the module is called
            if self.calibrated:
                return
            if self.options.calibration is None:
                raise messages.error(
                    "WEGO_TORCH_INVALID_ARGUMENT",
                    "the module is not quantized, and there is nothing to calibrate it with: give "
                    'torch.compile(model, backend="opendpu", options={"calibration": samples or '
                    "data loader})",
                )
            if self._call is None:
                raise messages.error(
                    "WEGO_TORCH_UNIMPLEMENTED",
                    "the backend was not called by torch.compile: no calibration",
                )
            self._modes.add(torch.is_grad_enabled())
            with self._looking_on():
                shown = self._show(self._batches())
                if not shown.samples:
                    raise messages.error(
                        "WEGO_TORCH_INVALID_ARGUMENT", "the calibration data is empty"
                    )
                if shown.calls == 1:
                    self.again = True
                    self._show([shown.last])
            self.calibrated = True

    def calibrate_by(self, count: int) -> None:
        """Call the compiled module with the calibration data again, ``count`` samples at a time.

        A module may become another one by its first call, as one that puts hooks on its parts then.
        TorchDynamo keeps the graphs of that call for calls of its size, which data in larger
        batches has never come to. Data that can be read once only is not given again.
        """
        data = self.options.calibration
        with tracing(), self._lock:
            if count < 1 or count in self._by or isinstance(data, Iterator) or self._call is None:
                return
            self._by.add(count)
            with self._looking_on():
                self._show(call for one in self._batches() for call in _divided(one, count))

    def calibrate_as_called(self) -> None:
        """Call the compiled module with the calibration data again, if gradients are enabled now
        and were not then, or the other way round: modules may compute another graph with them.
        """
        data, mode = self.options.calibration, torch.is_grad_enabled()
        with tracing(), self._lock:
            if mode in self._modes or isinstance(data, Iterator) or self._call is None:
                return
            self._modes.add(mode)
            with self._looking_on():
                self._show(self._batches())

    @contextlib.contextmanager
    def _looking_on(self) -> Iterator[None]:
        self._calibrating = threading.get_ident()
        try:
            yield
        finally:
            self._calibrating = None

    def _show(self, calls: Iterable["Call"]) -> "_Shown":
        """Call the module, until there are as many samples as the options say."""
        assert self._call is not None
        shown = _Shown()
        for args, kwargs in calls:
            without = torch.utils._pytree.tree_map_only(
                torch.Tensor, torch.Tensor.detach, (args, kwargs)
            )
            self._call(*without[0], **without[1])
            shown.calls, shown.last = shown.calls + 1, (args, kwargs)
            shown.samples += _size(shown.last, 1)
            if shown.samples >= self.options.samples:
                break
        return shown

    def _batches(self) -> Iterator["Call"]:
        """Return the calls of the calibration data."""
        data = self.options.calibration
        if isinstance(data, np.ndarray):
            data = torch.from_numpy(data)
        if isinstance(data, torch.Tensor) or (
            isinstance(data, tuple) and all(isinstance(one, torch.Tensor) for one in data)
        ):
            whole = (data,) if isinstance(data, torch.Tensor) else data
            yield tuple(one[: self.options.samples] for one in whole), {}
            return
        try:
            if isinstance(data, str | bytes):
                raise TypeError  # iterable, but of letters
            batches = iter(data)
        except TypeError:
            raise messages.error(
                "WEGO_TORCH_INVALID_ARGUMENT",
                f"option calibration is {type(data).__name__}, but must be tensors or an iterable "
                "of batches",
            ) from None
        for batch in batches:
            if isinstance(batch, Mapping):
                names = self._names
                yield (), {k: v for k, v in batch.items() if names is None or k in names}
            elif isinstance(batch, list | tuple):
                yield tuple(batch[: self._parameters]), {}
            else:
                yield (batch,), {}


Call = tuple[tuple[Any, ...], dict[str, Any]]


@dataclasses.dataclass
class _Shown:
    """What a module was called with: how often, with how many samples, and last."""

    calls: int = 0
    samples: int = 0
    last: Call = ((), {})


def _size(call: Call, default: int) -> int:
    """Return the number of samples of a call: that of its first tensor."""
    leaves = [*call[0], *call[1].values()]
    return next((len(x) for x in leaves if isinstance(x, torch.Tensor) and x.ndim), default)


def _divided(call: Call, count: int) -> Iterator[Call]:
    """Yield a call for every ``count`` samples of one; nothing if it has no more than that."""
    size = _size(call, 0)

    def part(value: Any, start: int) -> Any:
        whole = not isinstance(value, torch.Tensor) or not value.ndim or len(value) != size
        return value if whole else value[start : start + count]

    for start in range(0, size - count + 1, count) if size > count else ():
        args, kwargs = call
        yield tuple(part(x, start) for x in args), {k: part(x, start) for k, x in kwargs.items()}


class _Options(dict[str, Any]):
    """Options that are equal to themselves only: tensors among them have no truth value."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other


def _tell_apart(options: Mapping[str, Any] | None) -> None:
    """Let PyTorch compare the options of this ``torch.compile`` with those of another.

    It does when the same code is compiled twice, as for two networks of one class.
    """
    if not options:
        return
    alone = _Options(options)
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        kwargs = getattr(frame.f_locals.get("self"), "kwargs", None)
        if isinstance(kwargs, dict) and kwargs.get("options") is options:
            kwargs["options"] = alone
            return
        frame = frame.f_back


def session_of(options: Mapping[str, Any] | None) -> Session:
    """Return the session of the ``torch.compile`` that is just calling its backend."""
    _tell_apart(options)
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_name != "compile_wrapper":
        frame = frame.f_back
    if frame is None:
        return Session(Options.of(options), None, 1)
    context, function = frame.f_locals["self"], frame.f_locals["fn"]
    args, kwargs = frame.f_locals["args"], frame.f_locals["kwargs"]
    found = _sessions.get(context)
    if found is None:
        say_skipped(function)
        count = len(args) + len(kwargs) if args or kwargs else _required(function)
        found = _sessions[context] = Session(
            Options.of(options), context(function), count, _names(function)
        )
    return found


def _names(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the keywords that a function takes; nothing for any."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        function = owner.forward
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return None
    return frozenset(one.name for one in parameters)


def _required(function: Callable[..., Any]) -> int:
    """Return how many positional arguments a function needs."""
    parameters = inspect.signature(function).parameters.values()
    return sum(one.default is one.empty for one in parameters)
