"""How far what a session remembers goes back: known to those that make caches, use them and reckon their bytes."""

NEAR = 16
"""Tokens: so near to its end a prompt is not read in two passes to leave a mark, since caches tell of it afterwards."""
GIVEN_ROWS = 16
"""The widest block of drafts that need no network, the anchor's row included."""


def slack(block_size: int | None) -> int:
    """Tokens that a target's caches can give back, beside a speculator with blocks of such a size or none.

    A session that ends may have a whole block enqueued behind its last round.
    """
    return 2 * max(GIVEN_ROWS, block_size or 1)
