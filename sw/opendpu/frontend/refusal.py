# SPDX-License-Identifier: Apache-2.0
"""Why a node cannot be converted: raised by handlers, collected for one error at the end."""


class Refusal(Exception):
    """A handler cannot convert its node; the text is the reason."""
