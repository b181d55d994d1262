"""What OpenAI's dialects count alike, and how both end a stream that failed."""

from dataclasses import asdict
from typing import Any

from server.api.sse import data
from server.api.wire import compact
from server.errors import Refusal
from server.events import Report, Usage
from server.verdicts import envelope

LOWEST = -9999.0
"""What OpenAI says of a token that could not come; JSON has no infinity."""


def usage(usage: Usage) -> dict[str, Any]:
    """Tokens as OpenAI counts them: those of the request's own prediction that did not come are in the completion's.

    Drafts are not in it: they are ours, and not billed.
    """
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion + usage.unpredicted,
        "total_tokens": usage.total + usage.unpredicted,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "accepted_prediction_tokens": usage.predicted,
            "rejected_prediction_tokens": usage.unpredicted,
        },
    }


def report(report: Report) -> dict[str, Any]:
    """What speculation did: the `laguna` object."""
    return asdict(report)


def error(refusal: Refusal) -> bytes:
    """What ends a stream that failed after its first byte; no finish reason and no `[DONE]` follow."""
    return data(compact(envelope(refusal)))
