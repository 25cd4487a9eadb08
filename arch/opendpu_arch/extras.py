# SPDX-License-Identifier: Apache-2.0
"""Packages that only an extra of ``opendpu`` brings along."""

import contextlib
from collections.abc import Iterator

from opendpu_arch.errors import MissingExtraError


@contextlib.contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """Say that ``what`` needs an extra, where something that is imported inside is missing.

    Raises
    ------
    MissingExtraError
        It is not installed.
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        missing = MissingExtraError(
            f"{what} needs {error.name}, which is not installed: pip install 'opendpu[{extra}]'"
        )
        missing.name = error.name
        raise missing from error
