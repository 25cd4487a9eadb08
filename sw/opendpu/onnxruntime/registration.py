# SPDX-License-Identifier: Apache-2.0
"""Make the execution provider known to the onnxruntime of this process.

onnxruntime knows the name ``VitisAIExecutionProvider`` as one of its own that it was built without,
and drops it from ``providers`` without a word. So :func:`register` puts a session in place of
``onnxruntime.InferenceSession`` that hands the name over in the way made for libraries,
``SessionOptions.add_provider_for_devices``, which also works without it.
"""

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
from opendpu_arch.errors import UnsupportedError

Provider = str | tuple[str, Mapping[str, str]]


@functools.cache
def register() -> None:
    """Let ``providers=["VitisAIExecutionProvider"]`` work; doing it again does nothing.

    Raises
    ------
    ToolError
        onnxruntime is older than 1.23, or there is no C compiler.
    """
    check_version(onnxruntime.__version__)
    ENTRY.bind(loaded())
    onnxruntime.register_execution_provider_library(PROVIDER, str(library_path()))
    onnxruntime.InferenceSession = RegisteredSession
    others = onnxruntime.get_available_providers()
    onnxruntime.get_available_providers = lambda: [PROVIDER, *others]


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
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, str]] | None = None,
        **others: Any,
    ) -> None:
        pairs = named(providers or (), provider_options or ())
        if PROVIDER not in dict(pairs):
            super().__init__(path_or_bytes, sess_options, providers, provider_options, **others)
            return
        chosen = onnxruntime.SessionOptions() if sess_options is None else sess_options
        api.find_target(ProviderOptions.read(dict(pairs)[PROVIDER]).target)  # errors of our own
        _add(chosen, pairs)
        super().__init__(path_or_bytes, chosen, **others)


def named(
    providers: Sequence[Provider], options: Sequence[Mapping[str, str]]
) -> list[tuple[str, dict[str, str]]]:
    """Return each provider with its options, from the two forms that onnxruntime takes.

    Raises
    ------
    UnsupportedError
        There are options for more or fewer providers than there are.
    """
    if options and len(options) != len(providers):
        raise UnsupportedError(
            f"provider_options has {len(options)} entries, but providers {len(providers)}"
        )
    given = options or [{}] * len(providers)
    pairs = [
        (provider, found) if isinstance(provider, str) else (provider[0], {**found, **provider[1]})
        for provider, found in zip(providers, given, strict=True)
    ]
    return [(name, {key: str(value) for key, value in own.items()}) for name, own in pairs]


_added: "weakref.WeakKeyDictionary[Any, list[tuple[str, dict[str, str]]]]" = (
    weakref.WeakKeyDictionary()
)
"""Session options that have their providers already, and which."""


def _add(chosen: Any, pairs: list[tuple[str, dict[str, str]]]) -> None:
    """Add providers to session options, unless an earlier session with them did."""
    if chosen in _added:
        if _added[chosen] != pairs:
            raise UnsupportedError(
                "these SessionOptions belong to a session with other providers, "
                f"{_added[chosen]}; make new ones for {pairs}"
            )
        return
    for name, options in pairs:
        if name == PROVIDER:
            devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == PROVIDER]
            chosen.add_provider_for_devices(devices, options)
        elif name != "CPUExecutionProvider":  # which is always there, last
            chosen.add_provider(name, options)
    _added[chosen] = pairs
