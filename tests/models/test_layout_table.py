"""One published layout or spelling a row: its answers are those of the network written out in numpy.

The oracle shares nothing with the loader: it has the weights as they were packed, and one spelling of everything.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from safetensors.numpy import load_file

from models.checkpoint import load_target, open_target
from models.contract import Row
from models.errors import CheckpointError
from models.loading import DEFAULTS, Loading
from models.settling import cast_parameters
from tests.models import mlx_layouts as mlx
from tests.models import packed_layouts as packed
from tests.models import published_packing as packing
from tests.models.packed_layouts import MLP, ROUTED, WIDE, Packer, Stored, kv_scales, where, write_both
from tests.models.plain_laguna import PlainLaguna

CLOSE = 1e-4
"""Largest difference of float32 logits, which reach about 6, from float64 ones."""
IDS = [(17 * at + 5) % 97 for at in range(40)]

FULL: dict[str, Any] = WIDE["rope_parameters"]["full_attention"]
SLIDING: dict[str, Any] = WIDE["rope_parameters"]["sliding_attention"]
YARN = {key: value for key, value in FULL.items() if key not in ("rope_theta", "partial_rotary_factor")}
SHARED, DENSE = r"\.shared_expert\.", r"layers\.0\.mlp\."
LINEAR = r"_proj$|lm_head|embed_tokens|\.gate$"

Tensors = dict[str, Stored]
PLAIN = where()


@dataclass(frozen=True)
class Case:
    """A checkpoint as it is written: `spelled` are fields that the oracle reads in their canonical form, `meant`."""

    packer: Callable[[str], Packer | None] = PLAIN
    spelled: Mapping[str, Any] = field(default_factory=dict)
    meant: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Stored] = field(default_factory=dict)
    prefix: str = ""
    renamed: Callable[[Tensors], Tensors] = dict
    loading: Loading = DEFAULTS


def fused(tensors: Tensors) -> Tensors:
    """transformers' own layout: two tensors of experts a layer, the shared expert in the plural."""
    out = mlx.stacked(tensors)
    for name in [name for name in out if ".switch_mlp.gate_proj" in name]:
        mlp = name.removesuffix(".switch_mlp.gate_proj.weight")
        kind, gate = out.pop(name)
        up = out.pop(f"{mlp}.switch_mlp.up_proj.weight")[1]
        out[f"{mlp}.experts.gate_up_proj"] = kind, np.concatenate([gate, up], axis=1)
        out[f"{mlp}.experts.down_proj"] = out.pop(f"{mlp}.switch_mlp.down_proj.weight")
    return {name.replace(".shared_expert.", ".shared_experts."): found for name, found in out.items()}


def nested(**full: object) -> dict[str, Any]:
    return {"rope_parameters": {"full_attention": FULL | full, "sliding_attention": SLIDING}}


def ints(*groups: dict[str, Any], ignore: tuple[str, ...] = ()) -> dict[str, Any]:
    return packing.container("pack-quantized", *groups, ignore=[*packing.KEPT, *ignore])


def group(size: int | None, *targets: str, strategy: str = "group") -> dict[str, Any]:
    found = packing.integers(4, 0, *targets)
    return found | {"weights": found["weights"] | {"group_size": size, "strategy": strategy}}


def uneven(bits: int, size: int | None) -> dict[str, Any]:
    found = packing.integers(bits, 0, "Linear")
    strategy = "channel" if size is None else "group"
    return found | {"weights": found["weights"] | {"group_size": size, "strategy": strategy, "symmetric": False}}


WIDER: dict[str, Any] = {"hidden_size": 256, "moe_intermediate_size": 256, "shared_expert_intermediate_size": 256}
M_MEANT: dict[str, Any] = {
    "gating": "per-element",
    "layer_types": ["full_attention"] * 5,
    "num_attention_heads_per_layer": [4] * 5,
    "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 2,
    "rope_parameters": {"full_attention": FULL | {"partial_rotary_factor": 1.0}},
}
M_SPELLED: dict[str, Any] = {
    **dict.fromkeys(["layer_types", "num_attention_heads_per_layer", "mlp_layer_types", "rope_parameters"]),
    "num_attention_heads": 4,
    "mlp_only_layers": [0, 1, 2],
    "sliding_window": 0,
    "rope_theta": FULL["rope_theta"],
    "partial_rotary_factor": 1.0,
    "rope_scaling": YARN,
}

CASES: dict[str, Case] = {
    "bf16, an expert a tensor": Case(),
    "bf16 with a wrapper's prefix": Case(prefix="language_model."),
    "bf16 as transformers holds it, experts in two tensors": Case(renamed=fused),
    "FP8 in blocks, cache scales beside it": Case(
        where((MLP, packed.fp8(128, 128))), packing.XS_FP8, extra=kv_scales()
    ),
    "FP8 of the routed experts alone": Case(where((ROUTED, packed.fp8(128, 128))), packing.S_FP8, extra=kv_scales()),
    "NVFP4 of routed and shared experts and the dense layer": Case(
        where((MLP, packed.nvfp4)), packing.XS_2_NVFP4, extra=kv_scales()
    ),
    "NVFP4 without the dense layer": Case(
        where((rf"{ROUTED}|{SHARED}", packed.nvfp4)), packing.XS_2_1_NVFP4, extra=kv_scales()
    ),
    "NVFP4 of the routed experts, a layer left plain": Case(
        where((r"layers\.[123]\.mlp\.experts\.", packed.nvfp4)), packing.S_NVFP4_LATE_PLAIN, extra=kv_scales()
    ),
    "INT4, then INT8, the shared expert ignored by an expression": Case(
        where((r"layers\.[12]\.mlp\.experts", packed.integers(4, 128)), (ROUTED, packed.integers(8, 128))),
        ints(
            packing.integers(4, 128, r"re:.*layers\.[12]\.mlp\..*(gate_proj|up_proj|down_proj)$"),
            packing.integers(8, 128, r"re:.*layers\.[34]\.mlp\..*(gate_proj|up_proj|down_proj)$"),
            ignore=(packing.SHARED, packing.DENSE),
        ),
    ),
    "INT4 in groups of 32, no weight_shape": Case(where((ROUTED, packed.integers(4, 32, shape=False))), packing.S_INT4),
    "INT4 in groups of 256, more than MLX has": Case(
        where((ROUTED, packed.integers(4, 256))), ints(group(256, "Linear")), meant=WIDER
    ),
    "INT4, a scale a row": Case(
        where((ROUTED, packed.integers(4, 256))), ints(group(None, "Linear", strategy="channel")), meant=WIDER
    ),
    "INT4 with zero points": Case(where((ROUTED, packed.asymmetric(4, 32))), ints(uneven(4, 32))),
    "INT4 with zero points, a scale a row": Case(
        where((ROUTED, packed.asymmetric(4, 256))), ints(uneven(4, None)), meant=WIDER
    ),
    "INT4 with zero points of rows that do not fill a word": Case(
        where((r"\.(gate|up)_proj$", packed.asymmetric(4, 32))),
        ints(uneven(4, 32)),
        meant={"moe_intermediate_size": 60, "shared_expert_intermediate_size": 36},
    ),
    "INT8 with zero points, the shared expert too": Case(
        where((rf"{ROUTED}|{SHARED}", packed.asymmetric(8, 64))), ints(uneven(8, 64))
    ),
    "INT4 by the format's name alone": Case(
        where((ROUTED, packed.integers(4, 32))),
        {"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized"}},
    ),
    "MLX nvfp4, prefixed, the router a layer": Case(
        where((ROUTED, mlx.nvfp4)), packing.NVFP4_MLX, prefix="language_model.", renamed=mlx.linear_router
    ),
    "MLX nvfp4, flat, the router bare": Case(where((ROUTED, mlx.nvfp4)), packing.NVFP4_MLX, renamed=mlx.stacked),
    "MLX 8 bit of every linear layer": Case(
        where((LINEAR, mlx.affine(8, 64))),
        packing.affine(8, 64),
        prefix="language_model.",
        renamed=mlx.linear_router,
    ),
    "MLX 3 to 8 bit by module": Case(
        where(
            (r"\.gate$|lm_head|embed_tokens", mlx.affine(8, 64)),
            (r"\.experts\.\d+\.down_proj", mlx.affine(5, 64)),
            (ROUTED, mlx.affine(3, 64)),
            (r"self_attn", mlx.affine(6, 64)),
            (LINEAR, mlx.affine(4, 32)),
        ),
        packing.affine(4, 64),
        prefix="language_model.",
        renamed=mlx.linear_router,
    ),
    "MLX 4 bit with a packed bare router": Case(
        where((LINEAR, mlx.affine(4, 64))), packing.affine(4, 64), renamed=mlx.stacked
    ),
    "M.1: gates per element, three dense layers, all full, YaRN in rope_scaling": Case(
        spelled=M_SPELLED, meant=M_MEANT
    ),
    "M.1 with a capped router of square roots and no window": Case(
        spelled=M_SPELLED | {"sliding_window": None},
        meant=M_MEANT | {"moe_router_score_func": "sqrtsoftplus", "moe_router_logit_softcapping": 2.0},
    ),
    "a softmax router in its older spelling": Case(
        spelled={"moe_router_use_sigmoid": False, "moe_router_score_func": None},
        meant={"moe_router_score_func": "softmax"},
    ),
    "XS.2: flat rope_parameters, swa_rope_parameters, gating true": Case(
        spelled={
            "gating": True,
            "rope_parameters": FULL | {"attention_factor": 1.0},
            "swa_rope_parameters": {"partial_rotary_factor": 1.0, "rope_theta": 10000.0, "rope_type": "linear"},
        },
    ),
    "XS.2: the length beside the nested objects, the share at the top": Case(
        spelled={
            "gating": True,
            "partial_rotary_factor": 0.5,
            "rope_parameters": {
                "full_attention": {
                    key: value
                    for key, value in FULL.items()
                    if key not in ("original_max_position_embeddings", "partial_rotary_factor")
                },
                "sliding_attention": SLIDING,
                "original_max_position_embeddings": FULL["original_max_position_embeddings"],
            },
        },
    ),
    "an attention_factor that YaRN does not derive": Case(spelled=nested(attention_factor=1.0)),
    "an attention_factor that is asked for": Case(
        spelled=nested(attention_factor=1.5), meant=nested(used=1.5), loading=Loading(attention_factor="config")
    ),
    "layers and gates listed one by one": Case(
        spelled={"gating": None, "gating_types": ["per_head"] * 5, "mlp_only_layers": None}
    ),
}


def both(tmp_path: Path, case: Case) -> tuple[Path, PlainLaguna]:
    """The checkpoint's folder and its oracle."""
    written = write_both(
        tmp_path, case.packer, case.spelled, extra=case.extra, prefix=case.prefix, renamed=case.renamed, **case.meant
    )
    config = json.loads((written.plain / "config.json").read_text())
    return written.packed, PlainLaguna(config, load_file(written.plain / "model.safetensors"))


def outputs(folder: Path, loading: Loading) -> list[np.ndarray]:
    """All layers' outputs, and the logits last."""
    model = load_target(folder, mx.float32, loading)
    layers = range(model.config.num_layers)
    out = model(mx.array(IDS), [Row(0, len(IDS), model.make_caches(0))], taps=layers)
    return [np.array(value) for value in (*out.taps, out.logits)]


@pytest.mark.parametrize("name", CASES)
def test_every_layer_and_the_logits_are_those_of_the_oracle(tmp_path: Path, name: str) -> None:
    folder, oracle = both(tmp_path, CASES[name])
    expected = oracle.outputs(IDS)
    assert 2 < np.abs(expected[-1]).max() < 100
    for ours, theirs in zip(outputs(folder, CASES[name].loading), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("name", CASES)
def test_the_routers_bias_is_float32_even_where_it_is_stored_in_bfloat16(tmp_path: Path, name: str) -> None:
    renamed = CASES[name].renamed

    def narrowed(tensors: Tensors) -> Tensors:
        biases = {name: packed.bf16(array) for name, (_, array) in tensors.items() if name.endswith("correction_bias")}
        return renamed(tensors | {name: ("BF16", bias) for name, bias in biases.items()})

    folder, oracle = both(tmp_path, replace(CASES[name], renamed=narrowed))
    model = open_target(folder)
    cast_parameters(model, mx.bfloat16)
    for index in (index for index, kind in enumerate(oracle.config["mlp_layer_types"]) if kind == "sparse"):
        bias = model.model.layers[index].mlp.gate.e_score_correction_bias
        exact = oracle.weights[f"model.layers.{index}.mlp.experts.e_score_correction_bias"]
        assert bias.dtype == mx.float32
        np.testing.assert_array_equal(np.array(bias), packed.from_bf16(packed.bf16(exact)))


@pytest.mark.parametrize(
    ("packer", "group", "message"),
    [
        (packed.asymmetric(4, 32), packing.integers(4, 32, "Linear"), "it has zero points, its group has none"),
        (packed.integers(4, 32), uneven(4, 32), "its group has zero points, it has none"),
    ],
)
def test_zero_points_that_the_configuration_contradicts_are_refused(
    tmp_path: Path, packer: Packer, group: dict[str, Any], message: str
) -> None:
    folder, _ = both(tmp_path, Case(where((ROUTED, packer)), ints(group)))
    with pytest.raises(CheckpointError, match=rf"experts\.0\..*_proj: {message}"):
        load_target(folder)
