"""Batches of chats of like length, made as they are needed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from models.tiny.recipe.chats import Chat, training
from models.tiny.recipe.rendering import Encoded, encode
from models.tiny.recipe.vocabulary import CONTROL, PAD
from models.tiny.recipe.workers import Workers

LONGEST = 768
POOL = 48


@dataclass(frozen=True)
class Batch:
    """`ids` [B, L]; `taught` [B, L] where the assistant's tokens stand; `real` [B, L] where it is not padding."""

    ids: Tensor
    taught: Tensor
    real: Tensor


def pad(chats: list[Encoded]) -> Batch:
    """Right-pad to the longest."""
    length = max(len(chat.ids) for chat in chats)
    ids = np.full((len(chats), length), CONTROL.index(PAD))
    taught, real = np.zeros((2, len(chats), length), bool)
    for row, chat in enumerate(chats):
        ids[row, : len(chat.ids)], taught[row, : len(chat.ids)], real[row, : len(chat.ids)] = (
            chat.ids,
            chat.taught,
            True,
        )
    return Batch(torch.from_numpy(ids), torch.from_numpy(taught), torch.from_numpy(real))


def together(chats: list[Encoded], tokens: int) -> Iterator[Batch]:
    """Group chats, sorted by length, into batches of about `tokens` ids."""
    group: list[Encoded] = []
    for chat in sorted(chats, key=lambda chat: len(chat.ids)):
        group.append(chat)
        if len(group) * len(chat.ids) >= tokens:
            yield pad(group)
            group = []
    if group:
        yield pad(group)


def stream(tokenizer: Tokenizer, start: int, tokens: int, hardness: float = 1.0) -> Iterator[Batch]:
    """Batches of the next `POOL` training chats from number `start` on, in random order."""
    made: list[Chat] = [training(start + i, hardness) for i in range(POOL)]
    encoded = [chat for chat in (encode(tokenizer, chat) for chat in made) if len(chat.ids) <= LONGEST]
    groups = list(together(encoded, tokens))
    yield from (groups[i] for i in np.random.default_rng(start).permutation(len(groups)))


def endless(
    tokenizer: Tokenizer, start: int, tokens: int, workers: Workers, hardness: Callable[[], float] = lambda: 1.0
) -> Iterator[Batch]:
    """This process's batches without end; no chat is used twice."""
    for pool in count(workers.rank, workers.count):
        yield from stream(tokenizer, start + pool * POOL, tokens, hardness())
