# SPDX-License-Identifier: Apache-2.0
"""The table memory of the extension ``table``: its shape, for gateware, simulators and compiler.

For LOAD it is a bank (:attr:`opendpu_arch.target.Target.table_bank`) of :data:`WORDS` words, of
which only the first :data:`WORD_BYTES` bytes exist, whatever the target's channel parallel.
"""

INDEX_BITS = 8
"""Bits of a result that pick an entry."""
ENTRIES = 1 << INDEX_BITS
"""Entries of a table; the k-th belongs to the result whose byte is k."""
WORD_BYTES = 4
"""Entries in a word."""
WORDS = 512
"""Words of the memory; addresses wrap here."""
SLOT_WORDS = ENTRIES // WORD_BYTES
"""Words of a table."""
SLOTS = WORDS // SLOT_WORDS
"""Tables that fit; ``table`` of an instruction is 0 for none, n for slot n - 1."""
