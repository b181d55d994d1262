"""Train the embedded pair from nothing, write it where the server finds it, and print its figures."""

import argparse
import json
import tempfile
from pathlib import Path

import torch

from models.runtime import load_runtime
from models.tiny.recipe import train_speculator, train_target, vocabulary
from models.tiny.recipe.export import write_speculator, write_target
from models.tiny.recipe.parity import differences
from models.tiny.recipe.rendering import FOLDER
from models.tiny.recipe.score import score


def main() -> None:
    """`python -m models.tiny.recipe`: train (about two hours on one core), or `--score` what is there."""
    parser = argparse.ArgumentParser(prog="python -m models.tiny.recipe", description=main.__doc__)
    parser.add_argument("--score", type=int, metavar="CHATS", help="only score the pair in place on held-out chats")
    parser.add_argument("--wrong", action="store_true", help="with --score: print the turns that are not exact")
    parser.add_argument("--target-minutes", type=float, default=50)
    parser.add_argument("--speculator-minutes", type=float, default=60)
    parser.add_argument("--work", type=Path, help="folder for training states; a second run goes on from them")
    options = parser.parse_args()
    if options.score is None:
        work = options.work or Path(tempfile.mkdtemp(prefix="laguna-tiny-"))
        train(work, options.target_minutes * 60, options.speculator_minutes * 60)
    figures = score(load_runtime(), options.score or 200)
    print(json.dumps(figures.summary(), indent=2))
    if options.wrong:
        for expected, text in figures.wrong:
            print(f"expected {expected!r}\nwritten  {text!r}")


def train(work: Path, target_seconds: float, speculator_seconds: float) -> None:
    """Vocabulary, target, speculator; one torch thread, since more are slower at this size."""
    torch.set_num_threads(1)
    print(f"training states in {work}", flush=True)
    work.mkdir(parents=True, exist_ok=True)
    tokenizer = vocabulary.build(FOLDER)
    target = train_target.train(tokenizer, work / "target.pt", train_target.Plan(target_seconds))
    plan = train_speculator.Plan(speculator_seconds)
    speculator = train_speculator.train(tokenizer, target, work / "speculator.pt", plan)
    write_target(target, FOLDER)
    write_speculator(speculator, target, FOLDER / "speculator")
    print(f"logits of the exported pair differ by {differences(target, speculator, tokenizer, FOLDER)}", flush=True)


if __name__ == "__main__":
    main()
