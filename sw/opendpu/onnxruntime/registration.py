# SPDX-License-Identifier: Apache-2.0
"""Make the execution provider known to the onnxruntime of this process.

onnxruntime knows the name ``VitisAIExecutionProvider`` as one of its own that it was built without,
and drops it from ``providers`` without a word. So :func:`register` puts a session in place of
``onnxruntime.InferenceSession`` that hands the name over in the way made for libraries,
``SessionOptions.add_provider_for_devices``, which also works without it.
"""

import difflib
import functools
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import onnxruntime

from opendpu import api
from opendpu.onnxruntime.abi import check_version
from opendpu.onnxruntime.factory import ENTRY
from opendpu.onnxruntime.library import library_path, loaded
from opendpu.onnxruntime.options import PROVIDER, ProviderOptions
from opendpu.onnxruntime.session_options import CopiedOptions
from opendpu.onnxruntime.spawned import hand_on
from opendpu_arch.errors import UnsupportedError

Provider = str | tuple[str, Mapping[str, str]]

_ALIKE = 0.85
"""How much of a provider's name has to agree with ours to be a misspelling of it."""


def register() -> None:
    """Let ``providers=["VitisAIExecutionProvider"]`` work; doing it again does nothing.

    It works in processes that ``multiprocessing`` starts from now on, too.

    Raises
    ------
    ToolError
        onnxruntime is older than 1.23, or there is no C compiler.
    """
    others = [name for name in _register_library() if name != PROVIDER]
    onnxruntime.InferenceSession = RegisteredSession
    onnxruntime.SessionOptions = CopiedOptions
    onnxruntime.get_available_providers = lambda: [PROVIDER, *others]
    hand_on()


@functools.cache
def _register_library() -> list[str]:
    """Register the library with onnxruntime; return the providers that there are."""
    check_version(onnxruntime.__version__)
    ENTRY.bind(loaded())
    onnxruntime.register_execution_provider_library(PROVIDER, str(library_path()))
    return list(onnxruntime.get_available_providers())


class RegisteredSession(onnxruntime.InferenceSession):
    """onnxruntime's session, with the provider's library where its name is asked for.

    Raises
    ------
    UnsupportedError, TargetError, ModelFormatError
        The provider's options, see :class:`~opendpu.onnxruntime.ProviderOptions`.
    """

    def __init__(
        self,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: str | Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, str]] | None = None,
        **others: Any,
    ) -> None:
        self._given = path_or_bytes, sess_options, others
        pairs = named(providers or (), provider_options or ())
        if PROVIDER not in dict(pairs):
            names = [providers] if isinstance(providers, str) else providers
            super().__init__(path_or_bytes, sess_options, names, provider_options, **others)
            return
        api.find_target(ProviderOptions.read(dict(pairs)[PROVIDER]).target)  # errors of our own
        super().__init__(path_or_bytes, _with(sess_options, pairs), **others)

    def set_providers(
        self,
        providers: str | Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        """Let others compute the model; arguments are those of the constructor."""
        model, options, others = self._given
        if isinstance(options, CopiedOptions):
            options = options.copied()  # without the providers that there were
        self.__init__(model, options, providers, provider_options, **others)  # type: ignore[misc]


def named(
    providers: str | Sequence[Provider], options: Sequence[Mapping[str, str]]
) -> list[tuple[str, dict[str, str]]]:
    """Return each provider with its options, from the two forms that onnxruntime takes.

    A single name is that of the only provider; onnxruntime takes its letters for names.

    Raises
    ------
    UnsupportedError
        A name is nearly ours, or none; there are options for more or fewer providers than there
        are, or they are no dictionaries.
    """
    if isinstance(providers, str):
        providers = [providers]
    if isinstance(options, Mapping) or not all(isinstance(own, Mapping) for own in options):
        raise UnsupportedError(
            f"provider_options is {options!r}, but must be a list with a dictionary for "
            "each provider"
        )
    if options and len(options) != len(providers):
        raise UnsupportedError(
            f"provider_options has {len(options)} entries, but providers {len(providers)}"
        )
    given = options or [{}] * len(providers)
    pairs = map(_with_options, providers, given)
    return [(name, {key: str(value) for key, value in own.items()}) for name, own in pairs]


def _with_options(provider: object, options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return a provider that is given as a name, or as a pair of a name and its options."""
    match provider:
        case str():
            return _checked(provider), dict(options)
        case [str() as name, Mapping() as own]:
            return _checked(name), {**options, **own}
    raise UnsupportedError(
        f"providers has {provider!r}, but must be a list of names, or of pairs of a name and a "
        "dictionary of options"
    )


def _checked(name: str) -> str:
    """Return the name of a provider, unless it is ours but for some letters.

    onnxruntime goes on without providers that it does not know, with the CPU: a misspelled name
    would look like success.
    """
    known = name == PROVIDER or name in onnxruntime.get_all_providers()
    if not known and difflib.get_close_matches(name.lower(), [PROVIDER.lower()], cutoff=_ALIKE):
        raise UnsupportedError(f"providers has {name!r}, which there is not; {PROVIDER!r} is meant")
    return name


_added: "weakref.WeakKeyDictionary[Any, list[tuple[str, dict[str, str]]]]" = (
    weakref.WeakKeyDictionary()
)
"""Session options that have their providers already, and which."""


def _with(given: Any, pairs: list[tuple[str, dict[str, str]]]) -> Any:
    """Return session options with providers: those given, or a copy where they have others."""
    chosen = CopiedOptions() if given is None else given
    if _added.get(chosen) == pairs:
        return chosen
    if chosen in _added:
        if not isinstance(chosen, CopiedOptions):
            raise UnsupportedError(
                "these SessionOptions belong to a session with other providers, "
                f"{_added[chosen]}; make new ones for {pairs}"
            )
        chosen = chosen.copied()
    for name, options in pairs:
        if name == PROVIDER:
            devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == PROVIDER]
            chosen.add_provider_for_devices(devices, options)
        elif name != "CPUExecutionProvider":  # which is always there, last
            chosen.add_provider(name, options)
    _added[chosen] = pairs
    return chosen
