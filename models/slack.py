"""How far back caches go and how they lie beside others: known to those that make, use and reckon them."""

NEAR = 16
"""Tokens: nearer to its end a prompt is not read in two passes to leave a mark: caches tell of it one token later."""
GIVEN_ROWS = 16
"""The widest block of drafts that need no network, the anchor's row included."""
SHARED_ROWS = 1024
"""A full cache that is made for more lives alone: where one is so long, all would be read as if they were."""
SPARE_PART = 4
"""One slot for so many that are lived in is kept, when nobody holds it any more, for who comes next."""


def slack(block_size: int | None) -> int:
    """Tokens that a target's caches can give back, beside a speculator with blocks of such a size or none.

    A session that ends may have a whole block enqueued behind its last round.
    """
    return 2 * max(GIVEN_ROWS, block_size or 1)
