import pytest

from server.settings import Settings
from tests.bench.client import Heard, chat
from tests.bench.http.goals import GOALS
from tests.bench.http.summary import rates
from tests.bench.http.waves import Wave
from tests.server.script import ScriptPair, says
from tests.server.stand import running, wait_until


def test_a_streamed_answer_is_heard_with_its_times_and_usage() -> None:
    pair = ScriptPair(says("<think>so</think>one two three"))
    with running(lambda: pair, Settings()) as (port, engine):
        wait_until(lambda: engine.health.state != "loading")
        heard = chat(port, {"model": "Laguna-Script", "messages": [{"role": "user", "content": "hi"}]})
    assert heard.error is None
    assert heard.message["content"].endswith("one two three")
    assert heard.finish == "stop"
    assert heard.tokens > 3
    assert 0 <= heard.role <= heard.first <= heard.whole
    assert len(heard.gaps) == len(heard.spoken) - 1


def test_a_refusal_and_a_dead_port_are_errors_of_the_answer() -> None:
    pair = ScriptPair(says("no"))
    with running(lambda: pair, Settings()) as (port, engine):
        wait_until(lambda: engine.health.state != "loading")
        refused = chat(port, {"model": "Laguna-Script", "messages": []})
    assert refused.error is not None
    assert "400" in refused.error
    assert chat(port, {"messages": []}, timeout=1).error is not None


def test_calls_are_put_together_from_their_fragments() -> None:
    parts = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"x"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}},
    ]
    frames = tuple((0.0, {"choices": [{"delta": {"tool_calls": [part]}}]}) for part in parts)
    calls = Heard(0.0, frames).message["tool_calls"]
    assert [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls] == [
        ("a", "f", '{"x": 1}'),
        ("b", "g", "{}"),
    ]


def _waves(plain: float, auto: float, text: str = "a") -> dict[int, dict[str, Wave]]:
    return {
        streams: {
            "off": Wave(1 / plain, 10 * streams, (), ("a",)),
            "auto": Wave(1 / auto, 10 * streams, (), (text,)),
            "mlx_lm": Wave(1.0, 10 * streams, ("mlx_lm: status 500",), ("b",)),
        }
        for streams in (1, 4, 8)
    }


def test_rates_are_medians_of_ratios_within_a_repeat() -> None:
    figures = rates([_waves(1.0, 2.0), _waves(2.0, 8.0, "b"), _waves(1.5, 3.0)])
    assert figures["over_mlx_lm"]["off"] == pytest.approx({"1": 1.5, "4": 1.5, "8": 1.5})
    assert figures["over_mlx_lm"]["auto"]["8"] == pytest.approx(3.0)
    assert figures["aggregate"]["off"]["8"] == pytest.approx(8.0)
    assert figures["tokens_per_second"]["mlx_lm"]["4"] == pytest.approx(40.0)
    assert figures["texts_that_differ"] == 3
    assert len(figures["errors"]) == 9


def test_every_goal_over_http_reads_the_figures_that_are_measured() -> None:
    figures = rates([_waves(1.0, 3.0)]) | {
        "evenness": {"4": 1.0, "8": 0.5},
        "long_aggregate": {"served": {"4": 2.6, "8": 3.2}},
        "over_bare": {"off": 1.0, "always": 1.2},
        "beside": {"role": 0.2, "gap_ratio": 2.0},
    }
    assert [goal.missed(figures) for goal in GOALS if goal.missed(figures)] == [
        "aggregate of 8 plain streams over one, long answers is 3.200, to reach at least 3.5",
        "slowest over fastest of 8 equal streams is 0.500, to reach at least 0.9",
        "seconds a token over the bare loop, always is 1.200, to reach at most 1.05",
        "milliseconds to a role chunk beside a 3k prompt is 200.000, to reach at most 100",
        "requests that failed is 3.000, to reach at most 0",
    ]
