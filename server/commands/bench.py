"""`laguna bench`."""

from __future__ import annotations

from pathlib import Path

import click

from server.commands.options import config_option, settings_from


@click.command(short_help="Measure a pair on this machine.")
@click.argument("model", required=False)
@click.argument("speculator", required=False)
@click.option(
    "--calibration",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write here what `laguna serve --calibration` starts from.",
)
@click.option("--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write all figures here.")
@click.option(
    "--plots", type=click.Path(file_okay=False, path_type=Path), help="Draw plots into this folder (needs matplotlib)."
)
@click.option(
    "--tokens", type=click.IntRange(8, 4096), default=128, show_default=True, help="Longest answer to each prompt."
)
@click.option(
    "--context",
    "contexts",
    type=click.IntRange(16),
    multiple=True,
    help="Tokens of context to time rounds at; may be given several times.  [default: 512, 2048, 8192]",
)
@click.option("--repeats", type=click.IntRange(1, 1000), default=7, show_default=True, help="Rounds of each kind.")
@config_option
def bench(
    model: str | None,
    speculator: str | None,
    calibration: Path | None,
    json_file: Path | None,
    plots: Path | None,
    tokens: int,
    contexts: tuple[int, ...],
    repeats: int,
    config: Path | None,
) -> None:
    """Measure a pair on this machine: what blocks cost, how many drafts are accepted, and which width pays.

    MODEL and SPECULATOR are what `serve` takes; without them, what the settings say, else the embedded pair.
    It takes a few minutes; nothing else should run meanwhile.

    The exit status is 0, 1 where the pair cannot be loaded or plots cannot be drawn, 2 for a wrong option.
    """
    settings = settings_from({"model": model, "speculator": speculator}, config)

    from server.bench.command import Wanted, run
    from server.bench.measure import CONTEXTS, Measurement

    measured = Measurement(tokens=tokens, contexts=contexts or CONTEXTS, repeats=repeats)
    raise SystemExit(run(settings, measured, Wanted(calibration, json_file, plots)))
