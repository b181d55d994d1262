"""Whether the trained twins and the exported checkpoint compute the same: the largest differences of their logits."""

from pathlib import Path

import mlx.core as mx
import numpy as np
import torch
from tokenizers import Tokenizer

from models.checkpoint import load_speculator, load_target
from models.contract import Row
from models.tiny.recipe.batches import pad
from models.tiny.recipe.chats import held_out
from models.tiny.recipe.networks import Speculator, Target
from models.tiny.recipe.rendering import encode
from models.tiny.recipe.train_speculator import drafted


@torch.no_grad()
def differences(target: Target, speculator: Speculator, tokenizer: Tokenizer, folder: Path) -> tuple[float, float]:
    """Largest absolute difference of the target's and of the speculator's logits on one held-out chat.

    The twins' weights are rounded to float16 in place, as the checkpoint's are.
    """
    for parameter in (*target.parameters(), *speculator.parameters()):
        parameter.copy_(parameter.half().float())
    target.eval()
    chat = encode(tokenizer, held_out(3))
    length, anchor, drafts = len(chat.ids), len(chat.ids) // 2, speculator.shape.block - 1
    batch = pad([chat])
    hidden, taps = target(batch.ids, speculator.shape.taps)
    blocks = drafted(speculator, target, batch, taps, torch.tensor([[anchor]]), drafts)[0, 0]

    loaded = load_target(folder)
    speculates = load_speculator(folder / "speculator", loaded)
    output = loaded(
        mx.array(chat.ids.astype(np.int32)), [Row(0, length, loaded.make_caches(0))], taps=speculator.shape.taps
    )
    context = speculates.make_context()
    speculates.absorb(speculates.fuse([tap[:anchor] for tap in output.taps]), [Row(0, anchor, context)])
    block = speculates.draft_block(mx.array([int(chat.ids[anchor])]), [Row(0, drafts + 1, context)])
    pairs = ((output.logits, target.lm_head(hidden)[0]), (block, blocks))
    first, second = (float(np.abs(np.array(ours) - theirs.numpy()).max()) for ours, theirs in pairs)
    return first, second
