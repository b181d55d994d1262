"""The bench of the wire measures whole streams of every dialect."""

import asyncio

from tests.bench.wire import BODIES, measured, pieces


def test_every_dialect_has_its_costs() -> None:
    costs = asyncio.run(measured(chunks=5, repeats=1))
    assert costs.keys() == BODIES.keys()
    assert all(min(cost.read, cost.write, cost.first) > 0 for cost in costs.values())
    assert all(cost.chunk == cost.read + cost.write for cost in costs.values())


def test_each_block_is_a_chunk_of_its_own() -> None:
    assert len(pieces(7)) == 8
