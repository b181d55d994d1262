"""Findings for people, in colours on a terminal and plainly elsewhere, and for programs as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from server.doctor.finding import SEVERITY, Finding, Level, worst

STYLES: dict[Level, str] = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def plain(findings: Sequence[Finding]) -> str:
    """One line a finding, and one for its advice."""
    return "\n".join([*_lines(findings), "", summary(findings)])


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{finding.level:<5} {finding.area:<11} {finding.said}"
        if finding.advice:
            yield f"{'':<5} {'':<11} -> {finding.advice}"


def coloured(findings: Sequence[Finding], console: Console) -> None:
    """The same on a terminal, as wide as it is."""
    table = Table.grid(padding=(0, 1))
    for finding in findings:
        # Text, not markup: what is said may hold brackets of a template.
        said = Text(finding.said)
        if finding.advice:
            said.append(f"\n-> {finding.advice}", style="dim")
        table.add_row(Text(finding.level, style=STYLES[finding.level]), Text(finding.area, style="bold"), said)
    console.print(table)
    console.print()
    console.print(Text(summary(findings), style=STYLES[worst(findings)]))


def summary(findings: Sequence[Finding]) -> str:
    """How many of each level."""
    counts = Counter(finding.level for finding in findings)
    return ", ".join(f"{counts[level]} {level}" for level in SEVERITY)


def as_json(findings: Sequence[Finding], more: Mapping[str, Any]) -> str:
    """One object: the gravest level, every finding, and whatever else was measured."""
    body = {"level": worst(findings), "findings": [asdict(finding) for finding in findings]}
    return json.dumps(body | dict(more), ensure_ascii=False, indent=1)
