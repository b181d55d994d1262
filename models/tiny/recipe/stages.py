"""The stages of training, one after the other: vocabulary, target, speculator, export."""

import shutil
from pathlib import Path

import torch

from models.tiny.recipe import train_speculator, train_target, vocabulary
from models.tiny.recipe.export import write_speculator, write_target
from models.tiny.recipe.parity import differences
from models.tiny.recipe.rendering import FOLDER
from models.tiny.recipe.workers import Workers, join


def train(work: Path, target_seconds: float, speculator_seconds: float) -> Workers:
    """Train the pair, then put it in place; one torch thread a process, since more are slower at this size."""
    torch.set_num_threads(1)
    workers = join()
    work.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary.build(work)
    target = train_target.train(tokenizer, work / "target.pt", train_target.Plan(target_seconds), workers)
    plan = train_speculator.Plan(speculator_seconds)
    speculator = train_speculator.train(tokenizer, target, work / "speculator.pt", plan, workers)
    if workers.rank == 0:
        for name in vocabulary.WRITTEN:
            shutil.copy(work / name, FOLDER)
        write_target(target, FOLDER)
        write_speculator(speculator, target, FOLDER / "speculator")
        print(f"logits of the exported pair differ by {differences(target, speculator, tokenizer, FOLDER)}", flush=True)
    return workers
