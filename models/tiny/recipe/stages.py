"""The stages of training, one after the other: vocabulary, target, speculator, export."""

import shutil
from pathlib import Path

import torch

from models.tiny.recipe import train_speculator, train_target, vocabulary
from models.tiny.recipe.export import write_speculator, write_target
from models.tiny.recipe.networks import Speculator, Target
from models.tiny.recipe.parity import differences
from models.tiny.recipe.rendering import FOLDER
from models.tiny.recipe.restore import read_speculator, read_target
from models.tiny.recipe.shape import Shape, SpeculatorShape
from models.tiny.recipe.workers import Workers, join


def fetch(work: Path) -> None:
    """Put the pair in place into `work` as the states that `train` goes on from, its vocabulary with it."""
    work.mkdir(parents=True, exist_ok=True)
    for name in vocabulary.WRITTEN:
        shutil.copy(FOLDER / name, work)
    target, speculator = Target(Shape()), Speculator(SpeculatorShape())
    read_target(target, FOLDER)
    read_speculator(speculator, FOLDER / "speculator")
    torch.save(target.state_dict(), work / "target.pt")
    torch.save(speculator.state_dict(), work / "speculator.pt")


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
