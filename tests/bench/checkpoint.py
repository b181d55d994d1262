"""A copy of the embedded pair that every server can read: float32 weights, which MLX's CPU backend needs."""

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import mlx.core as mx

from models.checkpoint import embedded_path
from models.generation import read_generation
from models.tokenizer import Tokenizer

HEAD = "lm_head.weight"
PADDING = "〈|PAD|〉"


def copied(folder: Path, name: str = "laguna-tiny", *, context: int | None = None, endless: bool = False) -> Path:
    """Write the pair to `folder`/`name` and return where.

    Args:
        folder: where the copy goes.
        name: what it is called there, and so by servers.
        context: tokens that prompt and answer may have together, where it is to be another number.
        endless: ids that would end a turn get the padding's logits, which are never the largest: answers end at their
            limit.
    """
    source, made = embedded_path(), folder / name
    shutil.copytree(source, made, ignore=shutil.ignore_patterns("recipe", "__*"))
    for config in sorted(made.rglob("config.json")):
        fields: dict[str, Any] = json.loads(config.read_text())
        fields["torch_dtype"] = "float32"
        if context is not None:
            fields["max_position_embeddings"] = context
        config.write_text(json.dumps(fields))
    padding = Tokenizer.load(source).token_id(PADDING)
    assert padding is not None
    for weights in sorted(made.rglob("*.safetensors")):
        _widen(weights, read_generation(source).eos_ids if endless else (), padding)
    return made


def _widen(weights: Path, without: Collection[int], padding: int) -> None:
    """Write a file's tensors in float32, the head's rows of the ids `without` like that of the padding."""
    arrays = mx.load(str(weights))
    assert isinstance(arrays, dict)
    wide = {key: value.astype(mx.float32) if value.dtype == mx.float16 else value for key, value in arrays.items()}
    if HEAD in wide:
        rows = [padding if index in without else index for index in range(wide[HEAD].shape[0])]
        wide[HEAD] = wide[HEAD][mx.array(rows)]
    mx.save_safetensors(str(weights), wide, {"format": "mlx"})
