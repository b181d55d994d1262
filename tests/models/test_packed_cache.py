"""Packed keys and values: smaller, close, the same however they came in, and resumed exactly."""

from pathlib import Path

import mlx.core as mx
import pytest

from models.cache import CacheError, FullCache
from models.checkpoint import load_speculator, load_target
from models.decode.batch import Batch
from models.decode.prefix import PrefixStore
from models.decode.session import Request, Sampling, Speculation
from models.errors import CheckpointError
from models.loading import KvBits, Loading, packed_group
from models.memory import footprint
from models.packed_cache import PackedCache
from tests.decode.scripted import run_all, text
from tests.models.tiny_checkpoint import write_pair

PROMPT = tuple(i * i % 89 + 3 for i in range(90))


def rows(count: int, seed: int = 0, head_dim: int = 64) -> tuple[mx.array, mx.array]:
    keys, values = mx.random.normal((2, 1, 2, count, head_dim), key=mx.random.key(seed))
    return keys, values


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("cuts", [(1, 1, 7), (300, 1, 1), (5, 1000, 3)])
def test_how_rows_arrive_makes_no_difference(bits: KvBits, cuts: tuple[int, ...]) -> None:
    keys, values = rows(sum(cuts))
    whole = PackedCache(bits, 64).update(keys, values)
    cache, at = PackedCache(bits, 64), 0
    for cut in cuts:
        seen = cache.update(keys[:, :, at : at + cut], values[:, :, at : at + cut])
        at += cut
        assert all(mx.array_equal(part, all_[:, :, :at]) for part, all_ in zip(seen, whole, strict=True))
    assert mx.abs(whole[0] - keys).max() < (0.04 if bits == 8 else 0.5)


def test_going_back_forgets_the_newest_and_no_more_than_there_is() -> None:
    keys, values = rows(20)
    cache = PackedCache(8, 64)
    cache.update(keys[:, :, :12], values[:, :, :12])
    cache.rollback(5)
    again = cache.update(keys[:, :, 7:], values[:, :, 7:])
    assert mx.array_equal(again[0], PackedCache(8, 64).update(keys, values)[0])
    with pytest.raises(CacheError, match="cannot go back 21 tokens of 20"):
        cache.rollback(21)


def test_packed_rows_are_kept_as_they_are_and_resumed_exactly() -> None:
    keys, values = rows(600)
    cache = PackedCache(4, 64)
    cache.update(keys[:, :, :300], values[:, :, :300])
    first = cache.snapshot(0, 300)
    cache.update(keys[:, :, 300:], values[:, :, 300:])
    assert all(map(mx.array_equal, first.arrays, cache.snapshot(0, 300).arrays))
    parts = [first, cache.snapshot(300, cache.offset)]
    assert sum(part.nbytes for part in parts) < (keys.nbytes + values.nbytes) / 5
    resumed = PackedCache(4, 64)
    resumed.restore(parts)
    more = rows(1, seed=1)
    for one, other in zip(cache.update(*more), resumed.update(*more), strict=True):
        assert mx.array_equal(one, other)
    with pytest.raises(CacheError, match="cannot resume"):
        PackedCache(4, 64).restore(parts[1:])
    with pytest.raises(CacheError, match=r"cannot copy rows 602\.\.603: 601 were seen"):
        cache.snapshot(602, 603)


def test_only_heads_that_divide_into_groups_are_packed(tmp_path: Path) -> None:
    assert [packed_group(width) for width in (128, 64, 96, 32, 48)] == [64, 64, 32, 32, None]
    path, _ = write_pair(tmp_path)
    with pytest.raises(CheckpointError, match="--kv-bits needs heads of a multiple of 32, and this network's have 16"):
        load_target(path, loading=Loading(kv_bits=8))


@pytest.mark.parametrize("bits", [4, 8])
def test_same_seed_same_text_with_drafts_or_without_cold_or_resumed(tmp_path: Path, bits: KvBits) -> None:
    path, drafts = write_pair(tmp_path, head_dim=32)
    target = load_target(path, loading=Loading(kv_bits=bits))
    speculator, store = load_speculator(drafts, target), PrefixStore(1 << 26)
    wanted = None
    speculations: list[Speculation] = ["off", "always", "always"]
    for speculation in speculations:
        batch = Batch(target, speculator, prefix=store, prefill_chunk=32)
        sampling = Sampling(temperature=1.0, seed=4)
        session = batch.add(Request(PROMPT, sampling, 40, frozenset(), speculation, marks=(60,)))
        said = text(run_all(batch)[session])
        wanted = wanted or said
        assert said == wanted
        store.check()
    assert session.stats.cached_tokens == 60


@pytest.mark.parametrize("bits", [None, 4, 8])
def test_the_sums_are_what_the_caches_hold(tmp_path: Path, bits: KvBits | None) -> None:
    path, _ = write_pair(tmp_path, head_dim=32)
    target = load_target(path, loading=Loading(kv_bits=bits))
    need = footprint(target.config, None, width=4, target_weights=0)
    held = 0
    for cache, layer in zip(target.make_caches(0), target.config.attention, strict=True):
        if layer.window is None:
            keys = mx.zeros((1, layer.kv_heads, 256, layer.head_dim))
            assert isinstance(cache, FullCache | PackedCache)
            cache.update(keys, keys)
            held += sum(array.nbytes for array in cache.arrays)
    assert held == 256 * need.per_token
