"""The networks that come with the project, trained, against mlx-lm's on the same files."""

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model

from models.checkpoint import embedded_path, load_target
from models.contract import Row
from models.tiny.recipe.chats import held_out
from models.tiny.recipe.rendering import render
from models.tokenizer import Tokenizer
from tests.models.closeness import assert_same

EOS = frozenset({2, 24})


def test_logits_equal_mlx_lm_on_a_whole_chat_in_one_pass_and_in_chunks() -> None:
    folder = embedded_path()
    theirs, _ = load_model(folder)
    theirs.set_dtype(mx.float32)
    ours = load_target(folder, mx.float32)
    ids = mx.array(Tokenizer.load(folder, eos_ids=EOS).encode(render(held_out(0))))
    expected = np.array(theirs(ids[None])[0])
    assert ids.size > 3 * min(layer.window for layer in ours.config.attention if layer.window is not None)
    for size in (ids.size, 37):
        caches = ours.make_caches(0)
        chunks = [ids[start : start + size] for start in range(0, ids.size, size)]
        got = [np.array(ours(chunk, [Row(0, chunk.size, caches)]).logits) for chunk in chunks]
        assert_same(np.concatenate(got), expected, 1e-4)
