"""Train the embedded pair from nothing, write it where the server finds it, and print its figures."""

import argparse
import json
from pathlib import Path

import torch

from models.runtime import load_runtime
from models.tiny.recipe import train_speculator, train_target, vocabulary
from models.tiny.recipe.export import write_speculator, write_target
from models.tiny.recipe.parity import differences
from models.tiny.recipe.rendering import FOLDER
from models.tiny.recipe.score import score, with_block
from models.tiny.recipe.workers import join


def main() -> None:
    """Train the pair, or with `--score` say how good the one in place is."""
    parser = argparse.ArgumentParser(prog="python -m models.tiny.recipe", description=main.__doc__)
    parser.add_argument("--score", type=int, metavar="CHATS", help="only score the pair in place on held-out chats")
    parser.add_argument("--block", type=int, default=8, help="with --score: rows of a block, one more than it drafts")
    parser.add_argument("--wrong", action="store_true", help="with --score: print the turns that are not exact")
    parser.add_argument("--target-minutes", type=float, default=70)
    parser.add_argument("--speculator-minutes", type=float, default=70)
    parser.add_argument("--work", type=Path, default=Path("build/tiny"), help="states; a second run goes on from them")
    options = parser.parse_args()
    if options.score is None:
        train(options.work, options.target_minutes * 60, options.speculator_minutes * 60)
        return
    figures = score(with_block(load_runtime(), options.block), options.score)
    print(json.dumps(figures.summary(), indent=2))
    for expected, text in figures.wrong if options.wrong else ():
        print(f"expected {expected!r}\nwritten  {text!r}")


def train(work: Path, target_seconds: float, speculator_seconds: float) -> None:
    """Vocabulary, target, speculator; one torch thread a process, since more are slower at this size."""
    torch.set_num_threads(1)
    workers = join()
    work.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary.build(FOLDER)
    target = train_target.train(tokenizer, work / "target.pt", train_target.Plan(target_seconds), workers)
    plan = train_speculator.Plan(speculator_seconds)
    speculator = train_speculator.train(tokenizer, target, work / "speculator.pt", plan, workers)
    if workers.rank == 0:
        write_target(target, FOLDER)
        write_speculator(speculator, target, FOLDER / "speculator")
        print(f"logits of the exported pair differ by {differences(target, speculator, tokenizer, FOLDER)}")
        print(json.dumps(score(with_block(load_runtime(), plan.narrow + 1), 200).summary(), indent=2))


if __name__ == "__main__":
    main()
