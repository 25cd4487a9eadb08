# SPDX-License-Identifier: Apache-2.0
"""Models with compiled parts in them: ``EPContext`` nodes of the domain ``com.microsoft``.

See https://onnxruntime.ai/docs/execution-providers/EP-Context-Design.html: a session with
``ep.context_enable`` writes such a model, and one that is given it does not compile again.
"""

import contextlib
import ctypes
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from opendpu import api
from opendpu.onnxruntime.abi import Api
from opendpu.onnxruntime.executable import Executable
from opendpu.onnxruntime.model import GraphReader
from opendpu.onnxruntime.options import PROVIDER, ProviderOptions
from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError

OPERATOR, DOMAIN = "EPContext", "com.microsoft"
_ENABLE, _PATH, _EMBEDDED = (f"ep.context_{what}" for what in ("enable", "file_path", "embed_mode"))
_NO_FALLBACK = "session.disable_cpu_ep_fallback"
_INT, _STRING = 1, 5
"""``OrtOpAttrType``."""


@dataclasses.dataclass(frozen=True)
class ContextOptions:
    """``ep.context_enable``, ``ep.context_file_path`` and ``ep.context_embed_mode``."""

    enabled: bool = False
    path: str = ""
    embedded: bool = False

    @classmethod
    def of_session(cls, session_options: Any) -> "ContextOptions":
        """Return what onnxruntime's ``SessionOptions`` say; they may be None."""
        found = {name: _config(session_options, name) for name in (_ENABLE, _PATH, _EMBEDDED)}
        return cls.read({name: value for name, value in found.items() if value})

    @classmethod
    def read(cls, config: Mapping[str, str]) -> "ContextOptions":
        """Return what a session's configuration says."""
        return cls(
            enabled=config.get(_ENABLE, "0") == "1",
            path=config.get(_PATH, ""),
            embedded=config.get(_EMBEDDED, "0") == "1",
        )


@contextlib.contextmanager
def switched_off(session_options: Any) -> Iterator[None]:
    """Let onnxruntime write no model and compute on the CPU meanwhile; options may be None."""
    names = [name for name in (_ENABLE, _NO_FALLBACK) if _config(session_options, name) == "1"]
    for name in names:
        session_options.add_session_config_entry(name, "0")
    try:
        yield
    finally:
        for name in names:
            session_options.add_session_config_entry(name, "1")


def forbids_cpu(session_options: Any) -> bool:
    """Tell whether ``session.disable_cpu_ep_fallback`` is set."""
    return _config(session_options, _NO_FALLBACK) == "1"


def _config(session_options: Any, name: str) -> str:
    """Return an entry of a session's configuration; nothing where it is not set."""
    if session_options is not None:
        with contextlib.suppress(RuntimeError):  # it is not set
            return str(session_options.get_session_config_entry(name))
    return ""


def is_ours(attributes: Mapping[str, Any]) -> bool:
    """Return whether a node with these attributes is an ``EPContext`` node that we wrote."""
    return bool(attributes.get("source", b"") == PROVIDER.encode())


def read(attributes: Mapping[str, Any], model: str, options: ProviderOptions) -> Executable:
    """Return what is compiled in a node.

    Raises
    ------
    ModelFormatError
        It is not there, not ours, or its file is not beside the model.
    TargetError
        It is for another DPU than the options ask for.
    """
    found = _read(attributes, model)
    if options.chosen:
        found.check_target(api.find_target(options.target), model or "the model")
    return found


def _read(attributes: Mapping[str, Any], model: str) -> Executable:
    content = attributes.get("ep_cache_context", b"")
    label = model or "the model"
    if attributes.get("embed_mode", 1) == 1:
        return Executable.unpacked(content, label)
    name = content.decode(errors="replace")
    if not name or pathlib.PurePath(name).name != name or not model:
        raise ModelFormatError(f"{label}: {name!r} is not the name of a file beside the model")
    path = pathlib.Path(model).parent / name
    try:
        return Executable.unpacked(path.read_bytes(), str(path))
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}") from None


def attributes_of(found: Executable, name: str, options: ContextOptions) -> dict[str, Any]:
    """Return the attributes of a node: numbers and bytes.

    What was compiled is among them, or in a file beside the model, which is written.
    """
    embedded = options.embedded or not options.path
    if embedded:
        content = found.packed()
    else:
        file = pathlib.Path(options.path).with_name(f"{name}.opendpu")
        outputs.write(file, found.packed())
        content = file.name.encode()
    return {
        "main_context": 1, "embed_mode": int(embedded), "source": PROVIDER.encode(),
        "partition_name": name.encode(), "ep_cache_context": content,
    }  # fmt: skip


def create(
    api: Api, reader: GraphReader, fused: int, found: Executable, options: ContextOptions
) -> int:
    """Return a new ``EPContext`` node in place of a fused node; onnxruntime owns it."""
    name = api.text("Node_GetName", ctypes.c_void_p(fused))
    given = attributes_of(found, name, options)
    attributes = [_attribute(api, *item) for item in given.items()]
    names = [
        [text.encode() for text in reader.node_names(fused, which)]
        for which in ("Inputs", "Outputs")
    ]
    strings = [(ctypes.c_char_p * len(texts))(*texts) for texts in names]
    sizes = [ctypes.c_size_t(len(texts)) for texts in names]
    made = ctypes.c_void_p()
    api.CreateNode(
        OPERATOR.encode(),
        DOMAIN.encode(),
        name.encode(),
        strings[0],
        sizes[0],
        strings[1],
        sizes[1],
        (ctypes.c_void_p * len(attributes))(*attributes),
        ctypes.c_size_t(len(attributes)),
        ctypes.byref(made),
    )
    return made.value or 0


def _attribute(api: Api, name: str, value: int | bytes) -> int:
    found = ctypes.c_void_p()
    if isinstance(value, int):
        data: Any = ctypes.byref(ctypes.c_int64(value))
        kind, size = _INT, 1
    else:
        data, kind, size = ctypes.create_string_buffer(value, len(value)), _STRING, len(value)
    api.CreateOpAttr(
        name.encode(), data, ctypes.c_int(size), ctypes.c_int(kind), ctypes.byref(found)
    )
    return found.value or 0
