# SPDX-License-Identifier: Apache-2.0
"""The factory of providers: what onnxruntime asks for when it loads the library."""

import ctypes
from typing import Any

from opendpu.onnxruntime.abi import OK, Api
from opendpu.onnxruntime.context import ContextOptions
from opendpu.onnxruntime.options import PROVIDER, ProviderOptions
from opendpu.onnxruntime.provider import NAME, Provider, guarded
from opendpu.onnxruntime.structs import (
    CREATE_FACTORIES,
    FACTORY,
    RELEASE_FACTORY,
    Exported,
)

VENDOR = ctypes.create_string_buffer(b"OpenDPU")
VERSION = ctypes.create_string_buffer(b"1.0.0")
CPU = 0
"""``OrtHardwareDeviceType_CPU``: the DPU is simulated on it."""


def _nothing(*arguments: Any) -> None:
    """Give nothing through the last argument: the host's memory is all there is."""
    arguments[-1][0] = None


class Factory:
    """``OrtEpFactory``."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self._providers: dict[int, Provider] = {}
        self.exported = Exported(
            FACTORY,
            {
                "GetName": lambda _: ctypes.addressof(NAME),
                "GetVendor": lambda _: ctypes.addressof(VENDOR),
                "GetSupportedDevices": guarded(api, self._supported),
                "CreateEp": guarded(api, self._create),
                "ReleaseEp": self._release,
                "GetVendorId": lambda _: 0,
                "GetVersion": lambda _: ctypes.addressof(VERSION),
                "CreateAllocator": guarded(api, _nothing),
                "ReleaseAllocator": lambda *_: None,
                "CreateDataTransfer": guarded(api, _nothing),
                "IsStreamAware": lambda _: False,
            },
        )

    def _supported(
        self, this: int, devices: Any, number: int, found: Any, room: int, count: Any
    ) -> None:
        count[0] = 0
        for index in range(number):
            device = ctypes.c_void_p(devices[index])
            if self.api.HardwareDevice_Type(device) == CPU and count[0] < room:
                found[count[0]] = self.api.pointer(
                    "CreateEpDevice", ctypes.c_void_p(this), device, None, None
                )
                count[0] += 1

    def _create(
        self, _: int, devices: Any, metadata: Any, number: int, options: int, log: int, made: Any
    ) -> None:
        config = self._config(options)
        prefix = f"ep.{PROVIDER.lower()}."
        own = {key[len(prefix) :]: value for key, value in config.items() if key.startswith(prefix)}
        provider = Provider(self.api, ProviderOptions.read(own), ContextOptions.read(config))
        self._providers[provider.exported.address] = provider
        made[0] = provider.exported.address

    def _config(self, options: int) -> dict[str, str]:
        """Return the configuration entries of a session."""
        pairs = self.api.pointer("GetSessionOptionsConfigEntries", ctypes.c_void_p(options))
        try:
            strings = ctypes.POINTER(ctypes.c_char_p)
            keys, values, count = strings(), strings(), ctypes.c_size_t()
            self.api.GetKeyValuePairs(
                ctypes.c_void_p(pairs),
                ctypes.byref(keys),
                ctypes.byref(values),
                ctypes.byref(count),
            )
            return {
                keys[i].decode().lower(): values[i].decode(errors="replace")
                for i in range(count.value)
            }
        finally:
            self.api.ReleaseKeyValuePairs(ctypes.c_void_p(pairs))

    def _release(self, _: int, provider: int) -> None:
        self._providers.pop(provider, None)


class Entry:
    """The two functions of the library, bound to Python; it keeps the factories alive."""

    def __init__(self) -> None:
        self._factories: dict[int, Factory] = {}
        self._create = CREATE_FACTORIES(self._create_factories)
        self._release = RELEASE_FACTORY(self._release_factory)

    def bind(self, library: ctypes.CDLL) -> None:
        """Let the library call this."""
        library.opendpu_bind(self._create, self._release)

    def _create_factories(
        self, name: bytes, base: int, log: int, factories: Any, room: int, count: Any
    ) -> int:
        count[0] = 0
        factory = Factory(Api(base))
        if room:
            self._factories[factory.exported.address] = factory
            factories[0] = factory.exported.address
            count[0] = 1
        return OK

    def _release_factory(self, factory: int) -> int:
        self._factories.pop(factory, None)
        return OK


ENTRY = Entry()
"""What the library of this process is bound to."""
