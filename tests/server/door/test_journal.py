"""Every request leaves one record: a line in the log, the counters of the metrics, and nothing of what was said."""

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from models.decode.session import Stats
from server.course import Course, Figures
from server.errors import DeadlineExceeded
from server.logs import TALKATIVE, JsonLines, TextLines, configure
from server.record import Record
from tests.server.script import ScriptPair, ScriptTokenizer, forever, ids_of, says
from tests.server.stand import Stand, asked, stand
from tests.server.wire import events, refused

SECRET = "a secret of the prompt"
SHOWN = re.compile(r"[A-Za-z0-9._:-]{1,128}")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def records(log: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    told = [vars(record).get("fields") for record in log.records]
    return [fields for fields in told if isinstance(fields, dict)]


def last(served: Stand, log: pytest.LogCaptureFixture, count: int = 1) -> dict[str, Any]:
    """The newest record, once there are so many: it is written after the answer has gone out."""
    served.wait_until(lambda: len(records(log)) == count)
    return records(log)[-1]


@pytest.mark.parametrize("streamed", [True, False])
def test_a_request_is_one_line_with_its_figures_and_without_its_words(
    lines: pytest.LogCaptureFixture, streamed: bool
) -> None:
    with stand(ScriptPair(says("the answer", block=2))) as served:
        response = served.post(stream=streamed, messages=[{"role": "user", "content": SECRET}])
        told = last(served, lines)
        assert told["request_id"] == response.headers["x-request-id"]
        assert (told["status"], told["outcome"], told["completion_tokens"]) == (200, "ok", len("the answer"))
        assert (told["rounds"], told["drafted"], told["accepted_per_round"]) == (6, 0, 0)
        assert told["prompt_tokens"] == len(served.pair.requests[0].prompt)
        assert 0 < told["first_token_seconds"] <= told["seconds"]
        assert told["seconds_per_token"] >= 0
        assert told["speculation_off"] == "a script drafts nothing"
        assert "completion_tokens=10" in lines.text
        assert SECRET not in lines.text
        assert "the answer" not in lines.text


def test_prompts_are_logged_where_that_is_asked_for(lines: pytest.LogCaptureFixture) -> None:
    with stand(ScriptPair(says("ok")), log_prompts=True) as served:
        served.post(messages=[{"role": "user", "content": SECRET}])
        assert SECRET in lines.text


def test_how_a_request_ended_is_told_by_the_code_of_its_refusal(lines: pytest.LogCaptureFixture) -> None:
    def breaks(prompt: str) -> list[tuple[int, ...] | Exception]:
        return [ids_of("ab"), RuntimeError("in /secret/path")]

    with stand(ScriptPair(breaks), api_key="k") as served:
        key = {"x-api-key": "k"}
        ends = [
            (served.http.get("/v1/models"), 401, "invalid_api_key"),
            (served.http.get("/nowhere?q=secret", headers=key), 404, "unknown_url"),
            (served.http.post("/v1/chat/completions", json=asked(model="x"), headers=key), 404, "model_not_found"),
            (served.http.post("/v1/chat/completions", json=asked(), headers=key), 500, "generation_failed"),
            (served.http.post("/v1/chat/completions", json=asked(stream=True), headers=key), 200, "generation_failed"),
        ]
        last(served, lines, len(ends))
        # A line is written after its answer has gone out, so two may change places.
        by_id = {told["request_id"]: told for told in records(lines)}
        told = [by_id[response.headers["x-request-id"]] for response, _, _ in ends]
        for own, (response, status, outcome) in zip(told, ends, strict=True):
            assert (own["status"], own["outcome"], response.status_code) == (status, outcome, status)
        assert told[1]["path"] == "/nowhere"
        assert told[-1]["completion_tokens"] == 2


@pytest.mark.parametrize("streamed", [True, False])
def test_a_client_that_left_is_told_as_such_with_what_it_had_by_then(
    lines: pytest.LogCaptureFixture, streamed: bool
) -> None:
    with stand(ScriptPair(forever, pace=0.01), context_length=10**6) as served:
        with httpx2.Client(timeout=httpx2.Timeout(10, read=0.4)) as client:
            url = f"http://127.0.0.1:{served.port}/v1/chat/completions"
            if streamed:
                with client.stream("POST", url, json=asked(stream=True)) as response:
                    next(response.iter_text())
            else:
                with pytest.raises(httpx2.ReadTimeout):
                    client.post(url, json=asked())
        told = last(served, lines)
        assert (told["outcome"], told["status"]) == ("client_closed_request", 200 if streamed else 499)
        assert streamed or told["completion_tokens"]


def test_a_fault_of_ours_is_logged_once_with_its_traceback_and_answered_without(
    lines: pytest.LogCaptureFixture,
) -> None:
    class Crashing(ScriptTokenizer):
        def encode(self, text: str) -> list[int]:
            raise KeyError("/secret/path")

    with stand(ScriptPair(says("x"), tokenizer=Crashing())) as served:
        response = served.post()
        assert refused(response)["code"] == "internal_error"
        assert response.headers["x-request-id"]
        assert last(served, lines)["outcome"] == "internal_error"
        faults = [record for record in lines.records if record.exc_info]
        assert len(faults) == 1
        assert response.headers["x-request-id"] in faults[0].getMessage()


def test_a_clients_own_id_is_kept_where_it_is_fit_for_a_header_and_a_log() -> None:
    with stand(ScriptPair(says("ok"))) as served:
        for own in ("trace-1.2:3_x", "a" * 128):
            assert served.http.get("/ready", headers={"x-request-id": own}).headers["x-request-id"] == own
        for own in ("a" * 129, "two words", 'a"b', "\u00e9", ""):
            answered = served.http.get("/ready", headers=[(b"x-request-id", own.encode())]).headers["x-request-id"]
            assert answered.startswith("req_")
            assert SHOWN.fullmatch(answered)


def samples(served: Stand) -> dict[tuple[str, str], float]:
    """Every sample, by its name and the route or bucket it is of."""
    response = served.http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, sample.labels.get("route", sample.labels.get("le", ""))): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def test_the_metrics_are_the_sum_of_the_records(lines: pytest.LogCaptureFixture) -> None:
    with stand(ScriptPair(says("ok"))) as served:
        for streamed in (True, False, True):
            served.post(stream=streamed)
        served.http.get("/nowhere")
        last(served, lines, 4)
        told = samples(served)
        done = [record for record in records(lines) if "prompt_tokens" in record]
        assert len(done) == 3
        assert told["laguna_requests_total", "/chat/completions"] == 3
        assert told["laguna_requests_total", "none"] == 1
        for name in ("prompt", "cached", "completion"):
            assert told[f"laguna_{name}_tokens_total", ""] == sum(record[f"{name}_tokens"] for record in done)
        assert told["laguna_rounds_total", ""] == sum(record["rounds"] for record in done)
        assert told["laguna_first_token_seconds_count", ""] == 3
        assert told["laguna_token_seconds_count", ""] == 3
        gauges = ("up", "requests_running", "requests_waiting", "requests_parked", "prefix_cache_bytes")
        assert [told[f"laguna_{name}", ""] for name in gauges] == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_that_takes_too_long_ends_with_an_error_and_frees_its_slot(streamed: bool) -> None:
    with stand(ScriptPair(forever, pace=0.01), context_length=10**6, request_timeout=0.3) as served:
        response = served.post(stream=streamed)
        error = json.loads(events(response.text)[-1])["error"] if streamed else refused(response)
        assert (response.status_code, error["code"]) == (200 if streamed else 504, "deadline_exceeded")
        assert "0.3 seconds" in error["message"]
        assert streamed or response.headers["x-should-retry"] == "false"
        served.wait_until(lambda: served.pair.sessions == 0)


def test_a_deadline_ends_a_request_that_still_waits() -> None:
    pair = ScriptPair(says("ok"))
    pair.gate.clear()
    with stand(pair, concurrency=1, request_timeout=0.3) as served:
        assert refused(served.post())["code"] == "deadline_exceeded"
        health = served.engine.health
        assert (health.running, health.waiting) == (0, 0)
        pair.gate.set()
        served.wait_until(lambda: pair.sessions == 0)


def test_no_log_level_writes_what_streams_say(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    before = {name: logging.getLogger(name).level for name in TALKATIVE}
    caplog.set_level(logging.DEBUG)
    try:
        configure("debug", "text")
        with stand(ScriptPair(says("the answer"))) as served:
            assert "the answer"[-1] in served.post(stream=True, messages=[{"role": "user", "content": SECRET}]).text
        assert '"content":' not in caplog.text
        assert SECRET not in caplog.text
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def test_a_line_for_people_has_the_time_and_names_no_error_that_is_none() -> None:
    record = logging.LogRecord("uvicorn.error", logging.INFO, "f.py", 1, "up on %s", ("8000",), None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO uvicorn: up on 8000", TextLines().format(record))
    assert record.name == "uvicorn.error"


def test_a_json_line_is_one_object_with_fields_and_traceback() -> None:
    record = logging.LogRecord("server.x", logging.ERROR, "f.py", 1, "broke: %s\nagain", ("\ud83d",), None)
    record.fields = {"status": 500, "level": "not this"}
    try:
        raise ValueError("why")
    except ValueError as error:
        record.exc_info = (ValueError, error, error.__traceback__)
    line = JsonLines().format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert (told["level"], told["status"], told["message"]) == ("error", 500, "broke: \ud83d\nagain")
    assert "ValueError: why" in told["traceback"]


def test_figures_count_a_shared_prompt_once_and_time_between_tokens() -> None:
    clock: Iterator[float] = iter([1.0, 2.0, 4.0])
    course = Course([5, 0], clock=lambda: next(clock))
    assert course.figures.first is None
    course.failed(DeadlineExceeded(seconds=1))
    assert (course.figures.prompt, course.figures.failure, course.figures.whole) == (5, "deadline_exceeded", False)
    figures = replace(course.figures, first=1.0, last=4.0, completion=4, rounds=2, accepted=3)
    assert (figures.seconds_per_token, figures.accepted_per_round) == (1.0, 1.5)
    assert replace(figures, completion=1).seconds_per_token is None


def test_figures_count_what_was_cached_of_a_shared_prompt_once() -> None:
    course = Course([5, 0, 7, 0])
    for choice, cached in enumerate((1, 4, 6, 6)):
        course.came(choice, 1, Stats(8, 1, 1, 0, 0, 0.0, 0.0, cached, None))
    assert (course.figures.prompt, course.figures.cached) == (12, 7)


def test_a_line_shows_what_is_known_and_quotes_reasons() -> None:
    figures = Figures(3, 1, 2, 1, 4, 1, 0.5, 0.6, True, None, "no speculator")
    record = Record("req_1", "POST", "/v1/x", "/v1/x", 200, "ok", 1.23456, 0.5, figures)
    assert record.line() == (
        "req_1 POST /v1/x 200 ok 1.235 s prompt_tokens=3 cached_tokens=1 completion_tokens=2 rounds=1 drafted=4 "
        "accepted=1 accepted_per_round=1.0 first_token_seconds=0.5 seconds_per_token=0.1 "
        'speculation_off="no speculator"'
    )
    assert replace(record, figures=None).line() == "req_1 POST /v1/x 200 ok 1.235 s"
