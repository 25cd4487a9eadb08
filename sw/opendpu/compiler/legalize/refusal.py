# SPDX-License-Identifier: Apache-2.0
"""Why an op does not become a fixed-point op."""


class Refusal(Exception):
    """The DPU cannot compute an op; the text says which limit is broken, and what would lift it.

    Parameters
    ----------
    text
        The reason.
    code
        The guide's error code where one fits.
    """

    def __init__(self, text: str, code: str | None = None) -> None:
        super().__init__(f"{text} ({code})" if code else text)
