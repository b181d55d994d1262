"""The stages of training, one after the other: vocabulary, target, speculator, export."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from models.tiny.recipe import train_speculator, train_target, vocabulary
from models.tiny.recipe.export import write_speculator, write_target
from models.tiny.recipe.networks import Speculator, Target
from models.tiny.recipe.parity import differences
from models.tiny.recipe.rendering import FOLDER
from models.tiny.recipe.restore import read_speculator, read_target
from models.tiny.recipe.shape import Shape, SpeculatorShape
from models.tiny.recipe.workers import Workers, join


@dataclass(frozen=True)
class Stages:
    """One run of the recipe."""

    work: Path
    """Where states are kept; a run goes on from those that it finds."""
    target_seconds: float
    speculator_seconds: float
    go_on: bool = False
    """Begin with the pair in place and its vocabulary, not from nothing; at a lower rate, and on full blocks sooner."""
    first_chat: int = 0
    """The training chat to begin with: a pair that goes on has seen earlier ones."""

    @property
    def target(self) -> train_target.Plan:
        """How its target is trained."""
        plan = train_target.Plan(self.target_seconds, first_chat=self.first_chat)
        return replace(plan, rate=1.2e-3, decay_from=0.35) if self.go_on else plan

    @property
    def speculator(self) -> train_speculator.Plan:
        """How its speculator is trained, on later chats than the target."""
        plan = train_speculator.Plan(self.speculator_seconds)
        plan = replace(plan, first_chat=plan.first_chat + self.first_chat)
        return replace(plan, rate=1.8e-3, decay_from=0.4, narrow_until=0.3) if self.go_on else plan


def fetch(work: Path) -> None:
    """Put the pair in place into `work` as the states that training goes on from, its vocabulary with it."""
    for name in vocabulary.WRITTEN:
        shutil.copy(FOLDER / name, work)
    target, speculator = Target(Shape()), Speculator(SpeculatorShape())
    read_target(target, FOLDER)
    read_speculator(speculator, FOLDER / "speculator")
    torch.save(target.state_dict(), work / "target.pt")
    torch.save(speculator.state_dict(), work / "speculator.pt")


def train(stages: Stages) -> Workers:
    """Train the pair, then put it in place; one torch thread a process, since more are slower at this size."""
    torch.set_num_threads(1)
    workers, work = join(), stages.work
    work.mkdir(parents=True, exist_ok=True)
    if stages.go_on and not (work / "target.pt").exists():
        fetch(work)
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json")) if stages.go_on else vocabulary.build(work)
    target = train_target.train(tokenizer, work / "target.pt", stages.target, workers)
    speculator = train_speculator.train(tokenizer, target, work / "speculator.pt", stages.speculator, workers)
    if workers.rank == 0:
        for name in vocabulary.WRITTEN:
            shutil.copy(work / name, FOLDER)
        write_target(target, FOLDER)
        write_speculator(speculator, target, FOLDER / "speculator")
        print(f"logits of the exported pair differ by {differences(target, speculator, tokenizer, FOLDER)}", flush=True)
    return workers
