# SPDX-License-Identifier: Apache-2.0
"""``SessionOptions`` that can be copied: onnxruntime's own cannot, and keep their providers."""

import functools
from typing import Any

from onnxruntime import SessionOptions

RECORDED = (
    "add_external_initializers", "add_external_initializers_from_files_in_memory",
    "add_free_dimension_override_by_denotation", "add_free_dimension_override_by_name",
    "add_initializer", "add_session_config_entry", "register_custom_ops_library",
    "set_load_cancellation_flag",
)  # fmt: skip
"""Methods that change options, but for those that choose providers."""


class CopiedOptions(SessionOptions):  # type: ignore[misc]  # onnxruntime is without types
    """onnxruntime's options, which remember what was done to them."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def copied(self) -> "CopiedOptions":
        """Return new options that say the same, without providers."""
        made = CopiedOptions()
        for name, kind in vars(SessionOptions).items():
            if isinstance(kind, property) and getattr(self, name) != getattr(made, name):
                setattr(made, name, getattr(self, name))
        for name, args, kwargs in self.done:
            getattr(made, name)(*args, **kwargs)
        return made


def _recorded(name: str) -> Any:
    own = getattr(SessionOptions, name)

    @functools.wraps(own)
    def call(self: CopiedOptions, *args: Any, **kwargs: Any) -> Any:
        found = own(self, *args, **kwargs)
        self.done.append((name, args, kwargs))
        return found

    return call


for _name in RECORDED:
    if hasattr(SessionOptions, _name):  # some are of newer versions
        setattr(CopiedOptions, _name, _recorded(_name))
