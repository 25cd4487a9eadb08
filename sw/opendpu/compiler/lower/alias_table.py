# SPDX-License-Identifier: Apache-2.0
"""The aliases of a network that is being made."""

import collections
from collections.abc import Iterator

from opendpu.compiler.network import Alias


class AliasTable(collections.UserDict[str, Alias]):
    """Aliases by name; knows the parts of every feature map too."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[str, dict[str, None]] = {}

    def __setitem__(self, name: str, alias: Alias) -> None:
        self._forget(name)
        super().__setitem__(name, alias)
        self._parts.setdefault(alias.holder, {})[name] = None

    def __delitem__(self, name: str) -> None:
        self._forget(name)
        super().__delitem__(name)

    def _forget(self, name: str) -> None:
        if name in self:
            del self._parts[self[name].holder][name]

    def parts(self, holder: str) -> list[str]:
        """Return the feature maps that are bytes of another one, at first hand."""
        return list(self._parts.get(holder, ()))

    def with_parts(self, name: str) -> Iterator[str]:
        """Yield a feature map, its parts, their parts and so on."""
        waiting = [name]
        while waiting:
            name = waiting.pop()
            yield name
            waiting += self._parts.get(name, ())
