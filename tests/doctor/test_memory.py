"""Memory, judged on the sums of a published pair and made-up Macs."""

from dataclasses import replace

import pytest

from models.config import SpeculatorConfig, TargetConfig
from models.device import Device
from models.memory import GIB, Limit, footprint
from server.admission import kept_bytes
from server.doctor.finding import Finding, Unread
from server.doctor.memory import MemoryFacts, memory_findings
from server.settings import Settings
from tests.doctor.conftest import Copied, changed, examined, told
from tests.models.published import XS_2_1, XS_2_1_DFLASH

NEED = footprint(
    TargetConfig.from_dict(XS_2_1),
    SpeculatorConfig.from_dict(XS_2_1_DFLASH),
    width=2,
    target_weights=int(21.6e9),
    speculator_weights=924_000_000,
)


def on_mac(memory: int, working_set: int, context: int = 262_144) -> list[Finding]:
    """What is said on a Mac of so many GiB; the sums come first."""
    device = Device("Apple M4", "Metal", "bfloat16", 2, memory * GIB, working_set * GIB)
    limit = Limit(working_set * GIB, "what Metal recommends")
    return memory_findings(MemoryFacts("poolside/Laguna-XS-2.1-NVFP4-mlx", NEED, limit, device, context, 8))


def test_the_sums_of_a_published_pair() -> None:
    sums = on_mac(128, 96)[0]
    assert sums.level == "ok"
    assert "the target's weights take 20.1 GiB, the speculator's 0.9 GiB; then 40 KiB a token and" in sums.said


def test_a_mac_with_room_for_several_conversations_is_in_order() -> None:
    sums, verdict = on_mac(128, 96)
    assert (sums.level, verdict.level) == ("ok", "ok")
    assert "hold 5 conversations of 262144 tokens side by side" in verdict.said
    assert "at least 8 conversations of 32768 tokens" in on_mac(128, 96, context=32_768)[1].said


def test_a_context_that_does_not_fit_whole_is_a_warning_with_the_number_that_does() -> None:
    _, verdict, wired = on_mac(36, 27)
    assert verdict.level == "warn"
    assert "27.0 GiB (what Metal recommends) hold one conversation of 11" in verdict.said
    assert verdict.advice == "longer prompts are refused by that number; --kv-bits 8 makes room for more"
    assert wired.level == "warn"
    assert "the system lets the GPU keep 27.0 GiB of 36.0 GiB" in wired.said
    assert "`sudo sysctl iogpu.wired_limit_mb=30720` raises it to 30.0 GiB" in wired.advice


def test_what_is_kept_of_earlier_prompts_is_no_room_for_running_ones() -> None:
    device = Device("Apple M4", "Metal", "bfloat16", 2, 128 * GIB, 96 * GIB)
    facts = MemoryFacts("x", NEED, Limit(96 * GIB, "what Metal recommends"), device, 262_144, 8)
    kept = replace(facts, kept=kept_bytes(facts, Settings()))
    assert kept.kept == facts.left // 4
    assert "hold 4 conversations of 262144 tokens side by side and 18.7 GiB kept of" in memory_findings(kept)[1].said
    short = memory_findings(replace(kept, limit=Limit(36 * GIB, "x"), kept=4 * GIB))[1]
    assert "--prefix-cache-gib 0 or --kv-bits 8 makes room for more" in short.advice


def test_fp8_that_does_not_fit_may_be_packed() -> None:
    device = Device("Apple M4", "Metal", "bfloat16", 2, 32 * GIB, 21 * GIB)
    facts = MemoryFacts("x", NEED, Limit(21 * GIB, "all"), device, 4096, 8, smaller="--quantize-fp8 8")
    assert "Take a smaller quantisation, --quantize-fp8 8, " in memory_findings(facts)[1].said


def test_packing_is_advised_for_a_target_in_fp8_that_is_not_packed_yet(copied: Copied) -> None:
    folder = copied()
    floats = {"quant_method": "compressed-tensors", "format": "float-quantized"}
    changed(folder / "config.json", quantization_config=floats)
    assert "--quantize-fp8 8" in told(examined(folder, "none", memory_limit=0.001), "memory")[1]
    packed = examined(folder, "none", memory_limit=0.001, quantize_fp8="8")
    assert "--quantize-fp8 8" not in told(packed, "memory")[1]


def test_the_share_of_the_gpu_is_raised_by_no_more_than_is_needed() -> None:
    assert "raises it to 3" in on_mac(64, 27)[2].advice
    assert len(on_mac(32, 27)) == 2, "nothing is left for the system to give"


def test_weights_that_do_not_fit_fail_with_the_sums() -> None:
    _, verdict, wired = on_mac(32, 21)
    assert verdict.level == "fail"
    assert "needs 2" in verdict.said
    assert "weights 20.1 GiB, speculator 0.9 GiB" in verdict.said
    assert "iogpu.wired_limit_mb=26624" in wired.advice
    assert [finding.level for finding in on_mac(24, 16)] == ["ok", "fail"], "all that the GPU may get is too little"


def test_a_limit_that_was_chosen_says_nothing_about_the_gpu() -> None:
    device = Device("Apple M4", "Metal", "bfloat16", 2, 36 * GIB, 27 * GIB)
    facts = MemoryFacts("x", NEED, Limit(30 * GIB, "as --memory-limit says"), device, 262_144, 8)
    assert len(memory_findings(facts)) == 2


def test_without_full_layers_a_conversation_may_have_any_length() -> None:
    facts = MemoryFacts(
        "x", replace(NEED, per_token=0), Limit(64 * GIB, "all"), Device("CPU", "CPU", "float32", 4, 2**36, None), 9, 1
    )
    assert memory_findings(facts)[1].said == "64.0 GiB (all) hold a conversation of any length"


def test_what_cannot_be_summed_up_is_said() -> None:
    assert memory_findings(Unread("no sysctl")) == [Finding("memory", "warn", "cannot be told: no sysctl")]


@pytest.mark.parametrize(("limit", "level"), [(0.02, "fail"), (0.1, "ok")])
def test_the_limit_that_is_set_counts(limit: float, level: str) -> None:
    findings = examined("laguna-tiny", memory_limit=limit)
    assert [finding.level for finding in findings if finding.area == "memory"] == ["ok", level]
