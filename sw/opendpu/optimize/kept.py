# SPDX-License-Identifier: Apache-2.0
"""A folder in which an optimization keeps what it knows, so that another run goes on from there."""

import pathlib

from opendpu.optimize.halving import Candidates
from opendpu.pruning.analysis import Analysis


class Kept:
    """Scores of an optimization in files, one set for each network and what it is optimized for.

    Parameters
    ----------
    folder
        Where they are; nothing is kept without.
    source
        Digest of the trained network's state and of the settings that scores depend on. Files of
        another one are left alone.
    """

    def __init__(self, folder: pathlib.Path | None, source: str) -> None:
        self._folder = None if folder is None else folder / source

    def analysis(self, fingerprint: str) -> Analysis | None:
        """Return the analysis as far as it is known.

        Raises
        ------
        ModelFormatError
            The file is damaged.
        """
        path = self._path("analysis")
        return None if path is None or not path.is_file() else Analysis.load(path, fingerprint)

    def save_analysis(self, known: Analysis) -> None:
        """Write what is known of the analysis."""
        path = self._path("analysis")
        if path is not None:
            known.save(path)

    def candidates(self, name: str) -> Candidates | None:
        """Return what is known of a round's candidates.

        Raises
        ------
        ModelFormatError
            The file is damaged.
        """
        path = self._path(name)
        return None if path is None or not path.is_file() else Candidates.load(path)

    def save_candidates(self, known: Candidates, name: str) -> None:
        """Write what is known of a round's candidates."""
        path = self._path(name)
        if path is not None:
            known.save(path)

    def _path(self, name: str) -> pathlib.Path | None:
        return None if self._folder is None else self._folder / f"{name}.json"
