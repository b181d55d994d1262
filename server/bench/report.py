"""What the bench found, as tables of text and as plain values for JSON."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from models.decode.session import Speculation
from models.timing import Cost
from server.bench.answers import Answer
from server.bench.measure import Measured
from server.bench.predict import predicted
from server.bench.tally import Block, Depths, depths

SHOWN_DEPTHS = 7


def summary(found: Measured) -> dict[str, Any]:
    """Everything that the text tells, and all that was measured, as JSON values."""
    kinds = list(dict.fromkeys(answer.kind for answer in found.answers))
    return {
        "model": found.model,
        "speculator": found.speculator,
        "speculation_off": found.speculation_off,
        "device": asdict(found.device),
        "calibration": [asdict(cost) | {"kind": cost.kind} for cost in found.costs],
        "acceptance": {
            "by_kind": {kind: _depths(_blocks(found, kind)) for kind in kinds},
            "by_phase": {phase: _depths(blocks) for phase, blocks in _by_phase(found).items()},
        },
        "speed": [_speed(found, kind) for kind in kinds] if found.speculator else [],
        "tokens_per_second": {kind: _rate(found.answers, kind, "off") for kind in kinds},
        "roofline": _roofline(found),
    }


def text(found: Measured) -> str:
    """The tables."""
    facts = summary(found)
    pair = f"{found.model} with {found.speculator}" if found.speculator else found.model
    parts = (
        f"{pair}; {found.device.backend} on {found.device.name}, {found.device.dtype}",
        _table("milliseconds a round, by rows and tokens of context", _calibration(found.costs)),
        _table("share of drafts accepted, by depth (those before accepted)", _acceptance(facts)),
        _table("tokens a second, and what width pays", _speeds(facts)),
        _roof(facts["roofline"]),
        f"nothing was drafted: {found.speculation_off}" if found.speculation_off else "",
    )
    return "\n\n".join(filter(None, parts))


def _blocks(found: Measured, kind: str | None = None) -> list[Block]:
    """Of the widest blocks: they tell of every depth."""
    chosen = [a for a in found.answers if a.arm == "always" and kind in (None, a.kind)]
    return [block for answer in chosen for block in answer.blocks]


def _by_phase(found: Measured) -> dict[str, list[Block]]:
    phases: dict[str, list[Block]] = {}
    for block in _blocks(found):
        phases.setdefault(block.phase, []).append(block)
    return phases


def _depths(blocks: Iterable[Block]) -> dict[str, Any]:
    known = depths(blocks)
    return {"rates": [round(rate, 4) for rate in known.rates], "blocks": known.blocks}


def _rate(answers: Sequence[Answer], kind: str, arm: Speculation) -> float:
    """Tokens a second after the first."""
    own = [answer for answer in answers if answer.kind == kind and answer.arm == arm and answer.tokens > 1]
    seconds = sum(answer.seconds for answer in own)
    return sum(answer.tokens - 1 for answer in own) / seconds if seconds else 0.0


def _speed(found: Measured, kind: str) -> dict[str, Any]:
    """One kind of work: measured rates, and predicted against measured speed-up."""
    known: Depths = depths(_blocks(found, kind))
    own = [answer for answer in found.answers if answer.kind == kind]
    context = round(sum(answer.prompt_tokens + answer.tokens / 2 for answer in own) / len(own))
    forecast = predicted(found.costs, context, known)
    rates: dict[Speculation, float] = {arm: _rate(found.answers, kind, arm) for arm in ("off", "always", "auto")}
    widest = max(forecast.speedups)
    return {
        "kind": kind,
        "tokens_per_second": rates,
        "context": context,
        "predicted": {str(rows): round(value, 3) for rows, value in forecast.speedups.items()},
        "width_that_pays": forecast.best,
        "best_predicted": forecast.speedups[forecast.best],
        "always_predicted": forecast.speedups[widest],
        "always_measured": rates["always"] / rates["off"] if rates["off"] else 0.0,
        "auto_measured": rates["auto"] / rates["off"] if rates["off"] else 0.0,
        "chosen": {str(rows): share for rows, share in _chosen(own).items()},
    }


def _chosen(answers: Sequence[Answer]) -> dict[int, float]:
    """The share of rounds of each width where the controller chose."""
    counted: Counter[int] = Counter()
    for answer in answers:
        if answer.arm == "auto":
            counted[1] += answer.plain_rounds
            counted.update(block.drafted + 1 for block in answer.blocks)
    total = counted.total()
    return {rows: round(counted[rows] / total, 3) for rows in sorted(counted) if counted[rows]}


def _roofline(found: Measured) -> dict[str, Any]:
    """Bytes of a plain step at every context, and the share of the bandwidth that the measured rounds use."""
    steps = []
    for cost in found.costs:
        touched = found.traffic.step(cost.rows, cost.context)
        steps.append(
            {
                "rows": cost.rows,
                "context": cost.context,
                "bytes": round(touched),
                "least_seconds": touched / found.bandwidth,
                "seconds": cost.seconds,
                "reached": touched / found.bandwidth / cost.seconds,
            }
        )
    return {"bandwidth": found.bandwidth, "traffic": asdict(found.traffic), "steps": steps}


def _calibration(costs: Sequence[Cost]) -> list[list[str]]:
    widths = sorted({cost.rows for cost in costs})
    contexts = sorted({cost.context for cost in costs})
    seconds = {(cost.context, cost.rows): cost.seconds for cost in costs}
    rows = [[str(context), *(f"{seconds[context, width] * 1e3:.2f}" for width in widths)] for context in contexts]
    return [["context", *(f"{width} rows" if width > 1 else "plain" for width in widths)], *rows]


def _acceptance(facts: dict[str, Any]) -> list[list[str]]:
    known = {**facts["acceptance"]["by_kind"], **{f"({p})": d for p, d in facts["acceptance"]["by_phase"].items()}}
    drafted = {name: found for name, found in known.items() if found["blocks"]}
    if not drafted:
        return []
    head = ["", "blocks", *(str(depth + 1) for depth in range(SHOWN_DEPTHS))]
    return [head] + [
        [name, str(found["blocks"]), *(f"{rate:.2f}" for rate in found["rates"][:SHOWN_DEPTHS])]
        for name, found in drafted.items()
    ]


def _speeds(facts: dict[str, Any]) -> list[list[str]]:
    if not facts["speed"]:
        rates = facts["tokens_per_second"]
        return [["", "off"], *([kind, f"{rate:.1f}"] for kind, rate in rates.items())]
    head = ["", "off", "always", "auto", "always / off", "foretold", "auto / off", "foretold", "at rows", "it chose"]
    rows = []
    for speed in facts["speed"]:
        rates = [f"{rate:.1f}" for rate in speed["tokens_per_second"].values()]
        names = ("always_measured", "always_predicted", "auto_measured", "best_predicted")
        ratios = [f"{speed[name]:.2f}" for name in names]
        chose = " ".join(f"{rows}:{share:.0%}" for rows, share in speed["chosen"].items())
        rows.append([speed["kind"], *rates, *ratios, str(speed["width_that_pays"]), chose])
    return [head, *rows]


def _roof(facts: dict[str, Any]) -> str:
    plain = [step for step in facts["steps"] if step["rows"] == 1]
    lines = [
        f"  {step['context']} tokens: {step['bytes'] / 1e6:.1f} MB a step, so {step['least_seconds'] * 1e3:.2f} ms at "
        f"least; measured {step['seconds'] * 1e3:.2f} ms ({step['reached']:.0%} of the bandwidth)"
        for step in plain
    ]
    return "\n".join([f"plain decoding against memory ({facts['bandwidth'] / 1e9:.1f} GB/s here)", *lines])


def _table(title: str, rows: list[list[str]]) -> str:
    """Columns side by side; nothing where there are no rows."""
    if not rows:
        return ""
    columns = max(map(len, rows))
    filled = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(len(row[column]) for row in filled) for column in range(columns)]
    lines = []
    for first, *rest in filled:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join([title, *lines])
