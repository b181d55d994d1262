"""How the matrices are packed, and whether every tensor has its place in the network."""

from collections.abc import Sequence

from models.outline import Outline, Packing
from server.doctor.finding import Finding, Unread


def weight_findings(facts: Outline | Unread) -> list[Finding]:
    """What each kind of matrix is packed as."""
    if isinstance(facts, Unread):
        return [Finding("weights", "fail", facts.why, "fetch the files again, or use another published checkpoint")]
    findings = [Finding("weights", "ok", f"every tensor has its place; {listed(facts.target)}")]
    if facts.speculator:
        findings.append(Finding("speculator", "ok", listed(facts.speculator)))
    return [*findings, *(Finding("speculator", "warn", said) for said in facts.warnings)]


def listed(packings: Sequence[Packing]) -> str:
    """Kinds of one form together: "float16: attention 20, head 1; affine 4 bit in 64s: experts 12"."""
    forms = dict.fromkeys(packing.form for packing in packings)
    return "; ".join(
        f"{form}: " + ", ".join(f"{packing.kind} {packing.count}" for packing in packings if packing.form == form)
        for form in forms
    )
