# SPDX-License-Identifier: Apache-2.0
"""What a user may say to the execution provider: options of a session, and the environment.

Names are those of the guide's tables 33 and 34, and of the configuration file; case and underscores
do not count, as later releases of AMD's provider write them ``cache_dir``.
"""

import dataclasses
import difflib
import getpass
import logging
import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

from opendpu.runtime.devices import DEFAULT_TARGET, DEVICE_VARIABLE, TARGET_VARIABLE
from opendpu_arch import inputs
from opendpu_arch.errors import ModelFormatError, UnsupportedError

PROVIDER = "VitisAIExecutionProvider"
"""The execution provider's name."""

IGNORED = frozenset({
    "aianalyzerprofiling", "aianalyzervisualization", "enablecachefileioinmem", "enablepreemption",
    "encryptionkey", "loglevel", "maxspillbuffersize", "numofdpurunners", "optlevel", "xclbin",
    "xlnxaietoolpath", "xlnxenableoldqdq", "xlnxenablepy3round",
})  # fmt: skip
"""AMD's options that mean nothing here: bitstreams, encrypted caches, other processors."""

OTHER_PROCESSORS = frozenset({"VAIML", "X1", "X2", "XCOMPILER"})
OTHER_ARRAYS = "AMD_AIE"
"""What scripts for AMD's NPUs say as target, and how names of such begin; the DPU is the one that
it is without."""

OTHER_DEVICES = frozenset({"NPU", "IPU", "DPU"})
"""What scripts for these say as device, where only simulators and boards have a meaning."""

REPORT = "vitisai_ep_report.json"
"""In the folder of a compiled model: what runs where, see :mod:`opendpu.onnxruntime.assignment`."""

logger = logging.getLogger("opendpu.onnxruntime")

LEAST_CONVOLUTIONS = 2
"""AMD's ``XLNX_MINIMUM_NUM_OF_CONV``: a graph with fewer of them is not worth a DPU."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProviderOptions:
    """Options of a session.

    Parameters
    ----------
    target
        Name of the DPU, or an ``arch.json`` file; the environment's ``XLNX_TARGET_NAME``.
    device
        What executes the DPU's part: ``ref``, ``iss``, ``rtl``, ``cycle``.
    calibration
        Samples for a float model: a ``.npz`` file with an array for each input, or a folder of
        images. A float model without stays on the CPU.
    cache
        Folder for compiled models; None where nothing is to be kept.
    key
        Folder in it for this model; the model's own hash if empty.
    requantize
        Whether a model that is quantized with scales that are not the DPU's gets others: with
        samples those of its float network, without what holds the ranges in it.
    least_convolutions
        With fewer convolutions on the DPU, everything stays on the CPU.
    report
        Name of the file beside the compiled model that says what runs where, or its path.
    chosen
        Whether the user has said a target; what was compiled before is for its own otherwise.
    """

    target: str = DEFAULT_TARGET
    device: str = "ref"
    calibration: str = ""
    cache: pathlib.Path | None = None
    key: str = ""
    requantize: bool = False
    least_convolutions: int = LEAST_CONVOLUTIONS
    report: str = REPORT
    chosen: bool = False

    @classmethod
    def read(
        cls, given: Mapping[str, str], environment: Mapping[str, str] = os.environ
    ) -> "ProviderOptions":
        """Return the options that a session was given.

        Raises
        ------
        ModelFormatError
            ``config_file`` names a file that is no JSON object.
        UnsupportedError
            An option's name is misspelled, or a value is not allowed.
        """
        _check_names(given)
        found = {_plain(name): value for name, value in given.items()}
        config = _config(found.pop("configfile", ""))
        if text := found.pop("config", ""):
            config |= _content("config", text)
        if name := found.pop("xlnxtargetname", found.pop("xlnxtarget", "")):
            found.setdefault("target", name)
        for name in ("cachedir", "cachekey", "target"):
            if isinstance(config.get(name), str):
                found.setdefault(name, config[name])
        target = _of_dpus(found.get("target") or environment.get(TARGET_VARIABLE) or "")
        return cls(
            target=target or DEFAULT_TARGET,
            chosen=bool(target),
            device=_of_ours(found.get("device", "")) or environment.get(DEVICE_VARIABLE) or "ref",
            calibration=found.get("calibration", ""),
            cache=_cache(found.get("cachedir", ""), environment),
            key=_key(found.get("cachekey", "")),
            requantize=_switch("requantize", found.get("requantize", "0")),
            report=found.get("reportfile") or environment.get("XLNX_ONNX_EP_REPORT_FILE") or REPORT,
            least_convolutions=_number("XLNX_MINIMUM_NUM_OF_CONV", environment),
        )


_OPTIONS = (
    "cachedir", "cachekey", "target", "device", "calibration", "requantize", "reportfile",
)  # fmt: skip

_FILES = ("configfile", "config")
"""Options from which others are read."""

_TARGETS = ("xlnxtargetname", "xlnxtarget")
"""What else names a target."""

_ALIKE = 0.8
"""How near an unknown option's name is to one of ours where that one was meant."""

_SWITCH = {"0": False, "1": True, "false": False, "true": True}


_said: set[str] = set()


def _say_once(text: str, *values: str) -> None:
    """Warn, the first time in this process: a session's options are read more than once."""
    if (said := text % values) not in _said:
        _said.add(said)
        logger.warning(said)


def _check_names(given: Mapping[str, str]) -> None:
    """Warn of options that are unknown, as AMD's provider takes any name.

    Raises
    ------
    UnsupportedError
        One is nearly an option that there is, whose effect the user would miss.
    """
    known = (*_FILES, *_OPTIONS)
    for name in sorted(given):
        if _plain(name) in {*known, *_TARGETS} | IGNORED:
            continue
        meant = difflib.get_close_matches(_plain(name), known, n=1, cutoff=_ALIKE)
        if meant:
            raise UnsupportedError(f"{PROVIDER} has no option {name!r}; {meant[0]} is one")
        _say_once("option %s is none of this provider's, and without effect", name)


def _of_ours(device: str) -> str:
    """Return what executes, nothing where a script says what AMD's provider is to run on."""
    if device.upper() in OTHER_DEVICES:
        _say_once("device %s is none of this provider's; the default is taken", device)
        return ""
    return device


def _of_dpus(target: str) -> str:
    """Return the name of a target, nothing for another processor of AMD's."""
    if target.upper() in OTHER_PROCESSORS or target.upper().startswith(OTHER_ARRAYS):
        _say_once("target %s is no DPU; the default is taken", target)
        return ""
    return target


def _config(path: str) -> dict[str, Any]:
    """Return what the configuration file says, by plain names; nothing if there is none.

    AMD's compiler needs one, ours does not: a file that is missing is not worth an error.
    """
    if not path:
        return {}
    try:
        return _content(f"config_file {path}", inputs.read_text(path))
    except FileNotFoundError:
        _say_once("config_file %s: no such file; it is not needed", path)
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ModelFormatError(f"config_file {path}: cannot be read as JSON: {error}") from None


def _content(label: str, text: str) -> dict[str, Any]:
    """Return what a configuration says, by plain names."""
    try:
        content = inputs.json_value(text)
    except ValueError as error:
        raise ModelFormatError(f"{label}: cannot be read as JSON: {error}") from None
    if not isinstance(content, dict):
        raise ModelFormatError(f"{label}: must hold a JSON object")
    return {_plain(name): value for name, value in content.items()}


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _cache(given: str, environment: Mapping[str, str]) -> pathlib.Path | None:
    if environment.get("XLNX_ENABLE_CACHE", "1") == "0":
        return None
    chosen = given or environment.get("XLNX_CACHE_DIR", "")
    if chosen:
        return pathlib.Path(chosen).expanduser()
    return pathlib.Path(tempfile.gettempdir()) / getpass.getuser() / "vaip" / ".cache"


def _key(given: str) -> str:
    if given != pathlib.PurePath(given).name or given == "..":
        raise UnsupportedError(f"cacheKey {given!r} must be the name of a folder, without a path")
    return given


def _switch(name: str, text: str) -> bool:
    if text.lower() not in _SWITCH:
        raise UnsupportedError(f"option {name} is {text!r}, but must be 0 or 1")
    return _SWITCH[text.lower()]


def _number(name: str, environment: Mapping[str, str]) -> int:
    text = environment.get(name, str(LEAST_CONVOLUTIONS))
    if not text.isdigit():
        raise UnsupportedError(f"{name} is {text!r}, but must be a number from 0")
    return int(text)
