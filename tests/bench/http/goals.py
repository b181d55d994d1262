"""What the server is to reach over HTTP."""

from tests.bench.goals import Goal

STREAMS = (1, 4, 8)
SPECULATING = {"1": 2.4, "4": 1.6, "8": 1.2}
AGGREGATE = {"4": 2.5, "8": 3.5}
AGGREGATES = (("prompts included", "aggregate", "off"), ("long answers", "long_aggregate", "served"))
"""Both ways to measure it, and where their figures are."""

GOALS = (
    *(
        Goal(
            f"plain against mlx_lm.server, {streams} streams",
            lambda f, streams=streams: f["over_mlx_lm"]["off"][streams],
            1.0,
            at_least=True,
        )
        for streams in ("1", "4")
    ),
    *(
        Goal(
            f"speculating against mlx_lm.server, {streams} streams",
            lambda f, streams=streams: f["over_mlx_lm"]["auto"][streams],
            bound,
            at_least=True,
            only="openblas",
        )
        for streams, bound in SPECULATING.items()
    ),
    *(
        Goal(
            f"aggregate of {streams} plain streams over one, {what}",
            lambda f, name=name, arm=arm, streams=streams: f[name][arm][streams],
            bound,
            at_least=True,
            only="openblas",
        )
        for what, name, arm in AGGREGATES
        for streams, bound in AGGREGATE.items()
    ),
    *(
        Goal(
            f"slowest over fastest of {streams} equal streams",
            lambda f, streams=streams: f["evenness"][streams],
            0.9,
            at_least=True,
        )
        for streams in AGGREGATE
    ),
    *(
        Goal(
            f"seconds a token over the bare loop, {arm}",
            lambda f, arm=arm: f["over_bare"][arm],
            1.05,
            at_least=False,
        )
        for arm in ("off", "always")
    ),
    Goal("milliseconds to a role chunk beside a 3k prompt", lambda f: f["beside"]["role"] * 1e3, 100, at_least=False),
    Goal("others' longest gap over their usual one", lambda f: f["beside"]["gap_ratio"], 3.0, at_least=False),
    Goal("requests that failed", lambda f: len(f["errors"]), 0, at_least=False),
    Goal("texts unlike plain decoding's", lambda f: f["texts_that_differ"], 0, at_least=False, only="bundled"),
)
