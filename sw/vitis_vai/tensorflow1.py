# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 1 for scripts that were written for it: TensorFlow's own compatible interface."""

import re
import sys
import types
from typing import Any

_NEEDED = re.compile(r"^\s*(from|import)\s+(tensorflow\.contrib|tf1_nndct)\b", re.MULTILINE)


def is_needed(script: str) -> bool:
    """Return whether the text of a script imports what only TensorFlow 1 has."""
    return bool(_NEEDED.search(script))


class _TensorFlow1(types.ModuleType):
    """What ``import tensorflow`` gives: ``tensorflow.compat.v1``, and behind it TensorFlow."""

    def __init__(self, whole: Any) -> None:
        super().__init__(whole.__name__)
        self._whole = whole
        for name in ("__file__", "__path__", "__spec__", "__package__", "__version__"):
            setattr(self, name, getattr(whole, name))

    def __getattr__(self, name: str) -> Any:
        whole = self.__dict__["_whole"]
        if hasattr(whole.compat.v1, name):
            return getattr(whole.compat.v1, name)
        return getattr(whole, name)


def install() -> Any:
    """Let ``import tensorflow`` give that of version 1, with graphs and sessions; return it."""
    import keras  # noqa: F401 - looks for TensorFlow itself
    import tensorflow

    tensorflow.compat.v1.disable_v2_behavior()
    made = _TensorFlow1(tensorflow)
    sys.modules["tensorflow"] = made
    return made
