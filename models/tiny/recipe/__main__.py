"""Train the embedded pair from nothing, write it where the server finds it, and print its figures."""

import argparse
import json
from importlib.util import find_spec
from pathlib import Path

import mlx.core as mx

from models.runtime import load_runtime
from models.tiny.recipe.score import score, with_block


def main() -> None:
    """Train the pair, or with `--score` say how good the one in place is (which needs no PyTorch)."""
    parser = argparse.ArgumentParser(prog="python -m models.tiny.recipe", description=main.__doc__)
    parser.add_argument("--score", action="store_true", help="only score the pair in place")
    parser.add_argument("--chats", type=int, default=200, help="held-out chats to score")
    parser.add_argument("--block", type=int, default=8, help="rows of a block when scoring, one more than it drafts")
    parser.add_argument("--wrong", action="store_true", help="print the turns that are not exact, too")
    parser.add_argument("--target-minutes", type=float, default=70)
    parser.add_argument("--speculator-minutes", type=float, default=70)
    parser.add_argument("--work", type=Path, default=Path("build/tiny"), help="states; a second run goes on from them")
    parser.add_argument("--go-on", action="store_true", help="begin with the pair in place, its vocabulary included")
    parser.add_argument("--first-chat", type=int, default=0, help="the training chat to begin with")
    options = parser.parse_args()
    if not options.score:
        if find_spec("torch") is None:
            parser.error("training needs PyTorch: pip install torch==2.13.0 (--score does without)")
        from models.tiny.recipe.stages import Stages, train

        minutes = options.target_minutes, options.speculator_minutes
        stages = Stages(options.work, *(60 * n for n in minutes), options.go_on, options.first_chat)
        if train(stages).rank > 0:
            return
    figures = score(with_block(load_runtime(), options.block), options.chats)
    print(json.dumps(figures.summary(), indent=2))
    for expected, text in figures.wrong if options.wrong else ():
        print(f"expected {expected!r}\nwritten  {text!r}")


if __name__ == "__main__":
    try:
        main()
    finally:
        mx.clear_streams()
