# SPDX-License-Identifier: Apache-2.0
"""Packages that ``opendpu`` or one of its extras brings along: missing, or too old."""

import contextlib
import functools
import importlib.metadata
import re
import sys
from collections.abc import Iterator

from opendpu_arch.errors import MissingExtraError, OldPackageError

_REQUIREMENT = re.compile(r"([\w.-]+)[^;]*>=\s*([\w.]+)[^;]*(?:;(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")

_MODULES = {"pillow": "PIL", "protobuf": "google.protobuf", "tensorflow-cpu": "tensorflow"}
"""Modules that are not called as their packages."""


@contextlib.contextmanager
def needs(what: str, extra: str = "") -> Iterator[None]:
    """Say what ``what`` needs where something that is imported inside is missing or too old.

    Parameters
    ----------
    extra
        The extra that brings it along; without, ``opendpu`` itself does.

    Raises
    ------
    MissingExtraError
        It is not installed.
    OldPackageError
        It is older than ``opendpu`` asks for.
    """
    try:
        yield
    except (MissingExtraError, OldPackageError):
        raise
    except (AttributeError, ImportError) as error:
        check_versions(what, extra)
        if not isinstance(error, ModuleNotFoundError):
            raise
        missing = MissingExtraError(
            f"{what} needs {error.name}, which is not installed: {_command(extra)}"
        )
        missing.name = error.name
        raise missing from error
    check_versions(what, extra)


def check_versions(what: str, extra: str = "") -> None:
    """Compare the packages that were imported with what ``opendpu`` asks for.

    Nothing is compared where ``opendpu`` runs from a folder without being installed.

    Raises
    ------
    OldPackageError
        One is too old.
    """
    for package, least in (*_least_versions(""), *(_least_versions(extra) if extra else ())):
        found = getattr(sys.modules.get(_module(package)), "__version__", None)
        if isinstance(found, str) and _numbers(found) < _numbers(least):
            raise OldPackageError(
                f"{what} needs {package.removesuffix('-cpu')} {least} or newer, but {found} is "
                f"installed: {_command(extra)}"
            )


def brought_along(module: str | None) -> bool:
    """Say whether a module belongs to a package that ``opendpu`` brings along without extras.

    Always false where ``opendpu`` runs from a folder without being installed.
    """
    first = (module or "").partition(".")[0]
    return first in {_module(package).partition(".")[0] for package, _ in _least_versions("")}


def _module(package: str) -> str:
    return _MODULES.get(package, package.replace("-", "_"))


@functools.cache
def _least_versions(extra: str) -> tuple[tuple[str, str], ...]:
    """Return packages of an extra and their least versions, as our own metadata says them."""
    try:
        requirements = importlib.metadata.requires("opendpu") or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    found = []
    for text in requirements:
        match = _REQUIREMENT.match(text)
        wanted = _EXTRA.search(text)
        if match is not None and (wanted[1] if wanted else "") == extra:
            found.append((match[1], match[2]))
    return tuple(found)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers that a version begins with."""
    numbers = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in numbers[0].split(".")) if numbers else ()


def _command(extra: str) -> str:
    return f"pip install 'opendpu[{extra}]'" if extra else "pip install opendpu"
