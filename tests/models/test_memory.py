"""The sums of memory, against published figures, real caches and a real pair; and the refusal that they end in."""

import gc
import shutil
from pathlib import Path

import mlx.core as mx
import pytest

from models import machine
from models.cache import FullCache, WindowCache
from models.checkpoint import find_checkpoint, load_speculator, load_target, prepare_speculator, prepare_target
from models.config import SpeculatorConfig, TargetConfig
from models.contract import Row
from models.loading import Loading
from models.machine import group_room, linux_limit, memory_limit
from models.memory import (
    GIB,
    Footprint,
    Limit,
    NotEnoughMemory,
    buffer_rows,
    check_memory,
    footprint,
    row_bytes,
)
from models.runtime import load_runtime
from models.settling import weigh
from models.slack import NEAR
from tests.models.published import M_1, S_2_1, XS_2_1, XS_2_1_DFLASH

KIB, MIB = 2**10, 2**20


def sums(target: dict[str, object], speculator: dict[str, object] | None = None, width: int = 2) -> Footprint:
    drafts = None if speculator is None else SpeculatorConfig.from_dict(speculator)
    return footprint(TargetConfig.from_dict(target), drafts, width=width, target_weights=0)


def test_xs_2_1_takes_40_kib_a_token_and_60_mib_of_windows() -> None:
    need = sums(XS_2_1)
    assert need.per_token == 40 * KIB
    assert need.window_rows == 30 * 511 * 4 * KIB
    assert round(need.window_rows / MIB) == 60
    assert round(need.per_token * 32 * 1024 / GIB, 2) == 1.25


def test_the_speculators_context_is_10_mib_of_rows_and_its_target_can_go_back_two_blocks() -> None:
    alone, pair = sums(XS_2_1), sums(XS_2_1, XS_2_1_DFLASH)
    assert round((pair.window_rows - alone.window_rows) / MIB) == 10
    assert alone.per_session == 30 * buffer_rows(512, 32) * 4 * KIB
    assert pair.per_session - alone.per_session == 5 * buffer_rows(512, NEAR) * 4 * KIB
    assert pair.per_token == alone.per_token


def test_s_2_1_takes_48_kib_and_m_1_280_kib_a_token_and_no_windows() -> None:
    assert sums(S_2_1).per_token == 48 * KIB
    assert sums(M_1).per_token == 70 * 4 * KIB
    assert sums(M_1).per_session == 0


def test_float32_doubles_it_all() -> None:
    narrow, wide = sums(XS_2_1, XS_2_1_DFLASH, 2), sums(XS_2_1, XS_2_1_DFLASH, 4)
    assert (wide.per_token, wide.per_session, wide.workspace) == (
        2 * narrow.per_token,
        2 * narrow.per_session,
        2 * narrow.workspace,
    )


@pytest.mark.parametrize("tokens", [1, 255, 257, 1000, 1500])
@pytest.mark.parametrize("chunk", [1, 100, 512])
def test_no_cache_holds_more_than_the_sums_say(tokens: int, chunk: int) -> None:
    layer = TargetConfig.from_dict(XS_2_1).attention[0]
    full, window = FullCache(), WindowCache(512, 32)
    for start in range(0, tokens, chunk):
        rows = mx.zeros((1, layer.kv_heads, min(chunk, tokens - start), layer.head_dim), mx.bfloat16)
        full.update(rows, rows)
        window.update(rows, rows)
    need = Footprint(0, 0, row_bytes(layer, 2), 0, 0, 0)
    assert tokens * need.per_token <= sum(array.nbytes for array in full.arrays) <= need.session(tokens)
    assert sum(array.nbytes for array in window.arrays) == buffer_rows(512, 32) * row_bytes(layer, 2)


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16])
def test_the_embedded_pair_holds_what_was_told_before_it_was_read(dtype: mx.Dtype) -> None:
    folder = find_checkpoint("laguna-tiny")
    prepared = prepare_target(folder, dtype)
    told = weigh(prepared, prepare_speculator(folder / "speculator", prepared, dtype), dtype)
    gc.collect()
    before = mx.get_active_memory()
    target = load_target(folder, dtype)
    of_target = mx.get_active_memory() - before
    speculator = load_speculator(folder / "speculator", target, dtype)
    both = mx.get_active_memory() - before
    assert told.target == pytest.approx(of_target, rel=0.02)
    assert told.weights == pytest.approx(both, rel=0.02)
    del speculator


def test_what_fits_passes_and_what_does_not_is_refused_with_its_sums() -> None:
    need = Footprint(20 * GIB, GIB, 40 * KIB, 100 * MIB, 0, 90 * MIB)
    check_memory("a/b", need, Limit(22 * GIB, "said so"), 262144)
    with pytest.raises(NotEnoughMemory) as refused:
        check_memory("a/b", need, Limit(21 * GIB, "said so"), 262144)
    assert str(refused.value) == (
        "a/b needs 21.4 GiB of memory (weights 20.0 GiB, speculator 1.0 GiB, one conversation of 4096 tokens 0.3 GiB, "
        "one pass 90.0 MiB), and there are 21.0 GiB (said so). Take a smaller quantisation, --speculator none, close "
        "what else uses memory, or try it all the same with --memory-limit 22 (GiB)"
    )


def test_a_speculator_is_only_given_up_where_that_helps() -> None:
    need = Footprint(20 * GIB, GIB, 40 * KIB, 0, 0, 0)
    with pytest.raises(NotEnoughMemory, match=r"smaller quantisation, close what else"):
        check_memory("a/b", need, Limit(10 * GIB, "said so"), 262144)


def test_a_short_context_needs_no_more_than_it_can_hold() -> None:
    need = Footprint(GIB, 0, MIB, 0, 0, 0)
    check_memory("a/b", need, Limit(2 * GIB, "said so"), 256)
    with pytest.raises(NotEnoughMemory, match="one conversation of 4096 tokens"):
        check_memory("a/b", need, Limit(2 * GIB, "said so"), 262144)


def test_a_pair_that_does_not_fit_is_refused_before_a_weight_is_read() -> None:
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    with pytest.raises(NotEnoughMemory, match=r"laguna-tiny needs .* \(as --memory-limit says\)"):
        load_runtime(loading=Loading(memory_limit=0.001))
    assert mx.get_peak_memory() - before < 100_000


def test_what_was_reckoned_is_told_to_whoever_admits_requests() -> None:
    runtime = load_runtime(loading=Loading(memory_limit=1.0))
    assert runtime.memory == Limit(GIB, "as --memory-limit says")
    assert runtime.footprint.speculator > 0


def test_linux_says_what_is_available_and_a_container_what_is_left(tmp_path: Path) -> None:
    meminfo = "MemTotal:       24684092 kB\nMemFree: 5 kB\nMemAvailable:   1048576 kB\n"
    assert linux_limit(meminfo, None) == Limit(GIB, "what is available on this machine now")
    assert linux_limit(meminfo, 2 * GIB).size == GIB
    assert linux_limit(meminfo, 5) == Limit(5, "what is left of this container's memory")
    assert group_room(tmp_path) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("300\n")
    assert group_room(tmp_path) is None
    (tmp_path / "memory.max").write_text("1000\n")
    assert group_room(tmp_path) == 700


def test_the_machine_is_asked_unless_a_limit_was_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert memory_limit(1.5) == Limit(3 * GIB // 2, "as --memory-limit says")
    assert memory_limit().size > MIB
    monkeypatch.setattr(machine, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(mx, "device_info", lambda: {"max_recommended_working_set_size": 36 * GIB})
    assert memory_limit().size == 36 * GIB
    monkeypatch.setattr(mx, "device_info", dict)
    assert memory_limit().source == "all of this machine's memory"


def test_a_partner_that_was_only_guessed_is_left_out_where_it_does_not_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tiny = find_checkpoint("laguna-tiny")
    target, speculator = tmp_path / "Laguna-XS-2.1", tmp_path / "Laguna-XS-2.1-DFlash"
    shutil.copytree(tiny, target, ignore=shutil.ignore_patterns("speculator", "recipe"))
    shutil.copytree(tiny / "speculator", speculator)
    needs = [load_runtime(str(target), drafts).footprint.least() for drafts in ("none", "auto")]
    tight = Loading(memory_limit=sum(needs) / 2 / GIB)
    assert needs[0] < needs[1]
    left_out = load_runtime(str(target), loading=tight)
    assert left_out.speculator is None
    assert "Laguna-XS-2.1 needs" in caplog.text
    assert str(tmp_path) not in " ".join(left_out.warnings)
    with pytest.raises(NotEnoughMemory, match="--speculator none"):
        load_runtime(str(target), str(speculator), loading=tight)


def test_one_pass_over_a_prompt_takes_about_what_was_estimated() -> None:
    runtime = load_runtime(speculator="none")
    caches = runtime.target.make_caches(0)
    gc.collect()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    output = runtime.target(mx.zeros(512, mx.int32), [Row(0, 512, caches)], logit_rows=mx.array([511]))
    mx.eval(output.logits, *(array for cache in caches for array in cache.arrays))
    used = mx.get_peak_memory() - before
    assert used < runtime.footprint.workspace + runtime.footprint.session(512)
