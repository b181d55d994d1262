"""Train the speculator on the frozen target: its own greedy choices and its distribution are the labels."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from models.tiny.recipe.batches import Batch, endless, together
from models.tiny.recipe.chats import held_out
from models.tiny.recipe.networks import Speculator, Target
from models.tiny.recipe.pace import Pace
from models.tiny.recipe.rendering import encode
from models.tiny.recipe.shape import SpeculatorShape
from models.tiny.recipe.train_target import make_optimizer
from models.tiny.recipe.workers import Workers

SAVE_SECONDS = 120.0
SURE = 0.7
"""From this probability on a target's likeliest id is its choice; below, others are as good."""


@dataclass(frozen=True)
class Plan(Pace):
    """How the speculator is trained; its blocks grow from `narrow` drafts to the full width."""

    first_chat: int = 1_000_000
    tokens: int = 1536
    """Chat tokens a step."""
    anchors: int = 24
    """Blocks a chat."""
    narrow: int = 7
    narrow_until: float = 0.5
    fade: float = 7.0
    """How slowly (in depth) the weight of deeper drafts falls."""


def begin(speculator: Speculator, seed: int = 1) -> None:
    """Initial weights: the context is the last tap, whose stream holds the codes of this and the last token."""
    torch.manual_seed(seed)
    hidden = speculator.shape.hidden
    with torch.no_grad():
        speculator.fc.weight.normal_(0, 0.02)
        for tap, share in zip(range(len(speculator.shape.taps)), (0.3, 0.3, 1.0), strict=True):
            speculator.fc.weight[:, tap * hidden : (tap + 1) * hidden] += share * torch.eye(hidden)
        for layer in speculator.layers:
            for norm in (layer.self_attn.q_norm, layer.self_attn.k_norm):
                norm.weight.fill_(1.7)


def pick_anchors(batch: Batch, count: int, drafts: int) -> Tensor:
    """Positions [B, count] of assistant tokens (the first of a turn has its anchor too) with room for the drafts."""
    wanted = batch.taught.float() + 1e-9 * batch.real.float() + 1e-12
    wanted[:, -drafts:] = 0
    return torch.multinomial(wanted, count)


def drafted(
    speculator: Speculator, target: Target, batch: Batch, taps: list[Tensor], anchors: Tensor, drafts: int
) -> Tensor:
    """Logits [B, A, drafts, V] of the blocks at `anchors` [B, A]."""
    first = batch.ids.gather(1, anchors)[..., None]
    block = torch.cat((first, torch.full((*anchors.shape, drafts), speculator.shape.mask)), -1)
    return target.lm_head(speculator(taps, anchors, target.embed_tokens(block)))


def loss_of(speculator: Speculator, target: Target, batch: Batch, plan: Plan, drafts: int) -> tuple[Tensor, Tensor]:
    """The weighted loss, and the mean number of drafts accepted."""
    with torch.no_grad():
        hidden, taps = target(batch.ids, speculator.shape.taps)
        anchors = pick_anchors(batch, plan.anchors, drafts)
        depth = torch.arange(drafts)
        rows = (anchors[..., None] + depth).flatten(1)
        teacher = target.lm_head(hidden.gather(1, rows[..., None].expand(-1, -1, hidden.shape[-1])))
        teacher = teacher.view(*anchors.shape, drafts, -1)
        best = teacher.argmax(-1)
        # A draft counts only where the text up to it is what the target itself writes, or may as well write.
        given = batch.ids.gather(1, rows + 1).view_as(best)
        chances = teacher.softmax(-1)
        sure = chances.amax(-1) > SURE
        own = ((best == given) | ~sure).long()
        agreed = torch.cat((torch.ones_like(best[..., :1]), own[..., :-1].cumprod(-1)), -1)
        usable = batch.taught.gather(1, rows + 1).view_as(best) & (agreed > 0)
    logits = drafted(speculator, target, batch, taps, anchors, drafts)
    logs = logits.log_softmax(-1)
    # Where the target is unsure its likeliest id is one of many, and only its distribution is worth learning.
    hard = -logs.gather(-1, best[..., None])[..., 0] * sure
    soft = (chances * (teacher.log_softmax(-1) - logs)).sum(-1)
    weights = usable.float() * torch.exp(-depth / plan.fade)
    accepted = ((logits.argmax(-1) == best) & usable).int().cumprod(-1).sum(-1).float().mean()
    return (weights * (0.5 * hard + 0.5 * soft)).sum() / weights.sum(), accepted.detach()


@torch.no_grad()
def score(speculator: Speculator, target: Target, tokenizer: Tokenizer, chats: int, drafts: int) -> float:
    """Mean drafts accepted a round, of `drafts`, when held-out assistant turns are written block by block."""
    accepted = rounds = 0
    for batch in together([encode(tokenizer, held_out(i)) for i in range(chats)], 1024):
        hidden, taps = target(batch.ids, speculator.shape.taps)
        length = batch.ids.shape[1]
        anchors = torch.arange(length).expand(batch.ids.shape[0], -1)
        parts = [drafted(speculator, target, batch, taps, part, drafts).argmax(-1) for part in anchors.split(64, 1)]
        ahead = torch.arange(length)[:, None] + torch.arange(drafts)
        best = F.pad(target.lm_head(hidden).argmax(-1), (0, drafts))[:, ahead]
        given, taught = F.pad(batch.ids, (0, drafts))[:, 1:], F.pad(batch.taught, (0, drafts))[:, 1:]
        follows = F.pad(given, (0, 1))[:, ahead], F.pad(taught, (0, 1))[:, ahead]
        right = (torch.cat(parts, 1) == best) & (best == follows[0]) & follows[1]
        kept = right.int().cumprod(-1).sum(-1)
        for row in range(batch.ids.shape[0]):
            turns, kept_at = batch.taught[row].tolist(), kept[row].tolist()
            at = 0
            while at < length - 1:
                # An anchor is a turn's token whose successor is the turn's too.
                if turns[at] and turns[at + 1]:
                    accepted, rounds, at = accepted + kept_at[at], rounds + 1, at + kept_at[at]
                at += 1
    return accepted / max(rounds, 1)


def train(tokenizer: Tokenizer, target: Target, file: Path, plan: Plan, workers: Workers) -> Speculator:
    """Train for `plan.seconds`, starting from `file` if it exists, saving to it and printing figures."""
    target.eval().requires_grad_(False)
    speculator = Speculator(SpeculatorShape())
    begin(speculator)
    if file.exists():
        speculator.load_state_dict(torch.load(file, weights_only=True))
    optimizer = make_optimizer(speculator, plan.rate)

    def held_out_of(chats: int) -> dict[int, float]:
        widths = plan.narrow, speculator.shape.block - 1
        return {width: round(score(speculator, target, tokenizer, chats, width), 2) for width in widths}

    batches = endless(tokenizer, plan.first_chat, plan.tokens, workers)
    began = saved = time.monotonic()
    blocks, average = 0, 0.0
    while (done := workers.agree((time.monotonic() - began) / plan.seconds)) < 1:
        drafts = plan.narrow if done < plan.narrow_until else speculator.shape.block - 1
        batch = next(batches)
        for group in optimizer.param_groups:
            group["lr"] = plan.rate_at(done)
        loss, accepted = loss_of(speculator, target, batch, plan, drafts)
        optimizer.zero_grad()
        loss.backward()
        workers.average(speculator)
        torch.nn.utils.clip_grad_norm_(speculator.parameters(), 1.0)
        optimizer.step()
        blocks += plan.anchors * len(batch.ids) * workers.count
        average = 0.99 * average + 0.01 * accepted.item()
        if workers.rank == 0 and time.monotonic() - saved > SAVE_SECONDS:
            saved = time.monotonic()
            torch.save(speculator.state_dict(), file)
            print(f"{done:.2f} {blocks} blocks, {average:.2f} of {drafts}, held out {held_out_of(40)}", flush=True)
    if workers.rank == 0:
        torch.save(speculator.state_dict(), file)
        print(f"speculator: {blocks} blocks, held out {held_out_of(200)}", flush=True)
    return speculator
