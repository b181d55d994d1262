"""Train the target: AdamW on generated chats, a constant rate and then a linear decay, saved as it goes."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor, nn

from models.tiny.recipe import circuit
from models.tiny.recipe.batches import Batch, endless, together
from models.tiny.recipe.chats import held_out
from models.tiny.recipe.networks import Target
from models.tiny.recipe.pace import Pace
from models.tiny.recipe.rendering import encode
from models.tiny.recipe.shape import Shape
from models.tiny.recipe.workers import Workers

PROMPT_WEIGHT = 0.15
SAVE_SECONDS = 120.0


@dataclass(frozen=True)
class Plan(Pace):
    """How the target is trained."""

    tokens: int = 2048
    """Tokens a step."""

    def hardness(self, done: float) -> float:
        """Short chats first."""
        return min(1.0, 0.2 + done / 0.25) if self.first_chat == 0 else 1.0


def loss_of(target: Target, batch: Batch) -> tuple[Tensor, Tensor]:
    """The weighted loss, and the plain mean over the assistant's tokens."""
    hidden, _ = target(batch.ids[:, :-1])
    losses = F.cross_entropy(
        target.lm_head(hidden).flatten(0, 1), batch.ids[:, 1:].flatten(), reduction="none"
    ).view_as(batch.ids[:, 1:])
    taught, real = batch.taught[:, 1:].float(), batch.real[:, 1:].float()
    weights = taught + PROMPT_WEIGHT * (real - taught)
    return (losses * weights).sum() / weights.sum(), (losses * taught).sum() / taught.sum().clamp(min=1)


def make_optimizer(network: nn.Module, rate: float) -> torch.optim.Optimizer:
    """AdamW that decays matrices only."""
    matrices = [p for p in network.parameters() if p.dim() > 1]
    others = [p for p in network.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), fused=True)


@torch.no_grad()
def score(target: Target, tokenizer: Tokenizer, first: int, chats: int) -> dict[str, tuple[int, int]]:
    """Held-out turns that greedy decoding would write exactly, and all, for turns with calls and others."""
    opener = tokenizer.token_to_id("<tool_call>")
    exact = {"calls": [0, 0], "others": [0, 0]}
    target.eval()
    for batch in together([encode(tokenizer, held_out(first + i)) for i in range(chats)], 4096):
        hidden, _ = target(batch.ids[:, :-1])
        right = target.lm_head(hidden).argmax(-1) == batch.ids[:, 1:]
        for row, good, taught in zip(batch.ids[:, 1:], right, batch.taught[:, 1:], strict=True):
            edges = torch.diff(
                taught.int(), prepend=torch.zeros(1, dtype=torch.int), append=torch.zeros(1, dtype=torch.int)
            )
            starts, stops = (edges == 1).nonzero()[:, 0], (edges == -1).nonzero()[:, 0]
            for start, stop in zip(starts, stops, strict=True):
                kind = "calls" if (row[start:stop] == opener).any() else "others"
                exact[kind][0] += int(good[start:stop].all())
                exact[kind][1] += 1
    target.train()
    return {kind: (good, count) for kind, (good, count) in exact.items()}


def train(tokenizer: Tokenizer, file: Path, plan: Plan, workers: Workers) -> Target:
    """Train for `plan.seconds`, starting from `file` if it exists, saving to it and printing figures."""
    target = Target(Shape())
    if file.exists():
        target.load_state_dict(torch.load(file, weights_only=True))
    else:
        circuit.write(target)
    optimizer = make_optimizer(target, plan.rate)
    began = saved = time.monotonic()
    done, tokens, average = 0.0, 0, 0.0
    batches = endless(tokenizer, plan.first_chat, plan.tokens, workers, lambda: plan.hardness(done))
    while (done := workers.agree((time.monotonic() - began) / plan.seconds)) < 1:
        batch = next(batches)
        for group in optimizer.param_groups:
            group["lr"] = plan.rate_at(done)
        loss, plain = loss_of(target, batch)
        optimizer.zero_grad()
        loss.backward()
        workers.average(target)
        torch.nn.utils.clip_grad_norm_(target.parameters(), 1.0)
        optimizer.step()
        tokens += int(batch.real.sum()) * workers.count
        average = plain.item() if not average else 0.97 * average + 0.03 * plain.item()
        if workers.rank == 0 and time.monotonic() - saved > SAVE_SECONDS:
            saved = time.monotonic()
            torch.save(target.state_dict(), file)
            held = score(target, tokenizer, 0, 100)
            print(f"{done:.2f} {tokens / 1e6:.2f}M tokens, loss {average:.4f}, {held}", flush=True)
    if workers.rank == 0:
        torch.save(target.state_dict(), file)
        print(f"target: {tokens} tokens, loss {average:.4f}, held out {score(target, tokenizer, 0, 500)}", flush=True)
    return target
