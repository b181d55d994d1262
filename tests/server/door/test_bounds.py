"""Every limit has a name and a status, and nobody can keep the server waiting for ever."""

import json
import socket
import time
from contextlib import suppress

import pytest

from server.api.limits import DEPTH, MOST, PARTS, deeper
from server.door.bounds import HEAD_BYTES, HEAD_FIELDS, URL_BYTES
from server.door.connection import BEYOND
from tests.server.door.bare import connected, head, heard, says
from tests.server.script import ScriptPair, forever, ids_of
from tests.server.script import says as writes
from tests.server.stand import Stand, asked, stand
from tests.server.wire import refused

ASK = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f"}}


def nested(levels: int) -> dict[str, object]:
    value: object = {}
    for _ in range(levels - 1):
        value = [value]
    return {"x": value}


def posted(body: bytes, length: int | None = None, *more: str) -> bytes:
    lines = ("POST /v1/chat/completions HTTP/1.1", "Content-Type: application/json", *more)
    return head(*lines, f"Content-Length: {len(body) if length is None else length}") + body


def test_heads_that_are_too_large_are_refused_by_name() -> None:
    with stand(ScriptPair(writes("ok"))) as served:
        many = {f"x-{number}": "1" for number in range(HEAD_FIELDS + 1)}
        for headers in (many, {"x-long": "y" * (HEAD_BYTES - 100)}, {"x-long": "y" * (4 * HEAD_BYTES)}):
            response = served.http.get("/ready", headers=headers)
            assert (response.status_code, refused(response)["code"]) == (431, "headers_too_large")
        response = served.http.get(f"/ready?{'y' * URL_BYTES}")
        assert (response.status_code, refused(response)["code"]) == (414, "url_too_long")
        assert served.http.get("/ready", headers={"x-long": "y" * (HEAD_BYTES // 2)}).status_code == 200


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        (nested(DEPTH), None, "nested_too_deeply"),
        ({"messages": [ASK] * (MOST["messages"] + 1)}, "messages", "too_many_items"),
        ({"messages": [ASK], "tools": [TOOL] * (MOST["tools"] + 1)}, "tools", "too_many_items"),
        (
            {"messages": [ASK, {"role": "user", "content": [{"type": "text", "text": "x"}] * (PARTS + 1)}]},
            "messages[1].content",
            "too_many_items",
        ),
    ],
    ids=["depth", "messages", "tools", "parts"],
)
def test_more_than_any_client_asks_for_is_refused_by_name(
    body: dict[str, object], param: str | None, code: str
) -> None:
    with stand(ScriptPair(writes("ok"))) as served:
        response = served.post(**body)
        error = refused(response)
        assert (response.status_code, error["param"], error["code"]) == (400, param, code)


def test_what_is_just_within_the_limits_is_read() -> None:
    assert not deeper(nested(DEPTH - 1), DEPTH)
    assert deeper(nested(DEPTH), DEPTH)
    with stand(ScriptPair(writes("ok"), context_length=10**6)) as served:
        assert served.post(client_metadata=nested(DEPTH - 2)).status_code == 200
        assert served.post(messages=[ASK] * 2000, tools=[TOOL] * 500).status_code == 200


def test_a_compressed_body_is_refused() -> None:
    with stand(ScriptPair(writes("ok"))) as served:
        response = served.http.post("/v1/chat/completions", json=asked(), headers={"content-encoding": "gzip"})
        assert (response.status_code, refused(response)["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"nonsense\r\n\r\n", 400, "malformed_request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "malformed_request"),
        (b"GET /ready HTTP/1.1\r\n\r\n", 400, "malformed_request"),
        (b"GET /ready HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400, "malformed_request"),
        (b"GET /ready HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n", 400, "malformed_request"),
        (head("POST /v1/chat/completions HTTP/1.1", "Content-Length: -5"), 400, "malformed_request"),
        (
            head("POST /v1/chat/completions HTTP/1.1", "Transfer-Encoding: gzip"),
            501,
            "unsupported_transfer_encoding",
        ),
        (
            head("POST /v1/chat/completions HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")
            + b"zz\r\n",
            400,
            "malformed_request",
        ),
    ],
)
def test_what_is_no_request_gets_an_error_object_and_the_connection_is_closed(
    sent: bytes, status: int, code: str
) -> None:
    with stand(ScriptPair(writes("ok"))) as served:
        answer = says(served, sent)
        assert (answer.status, answer.error["code"]) == (status, code)
        assert answer.headers["connection"] == "close"
        assert served.http.get("/ready").status_code == 200


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize(
    ("host", "status", "code"), [("localhost", 413, "request_too_large"), ("example.org", 421, "host_not_allowed")]
)
def test_a_refusal_is_heard_by_a_client_that_sends_its_whole_body_before_it_reads(
    host: str, status: int, code: str, version: str
) -> None:
    """The connection ends with the answer, and the kernel would reset it over what nobody read."""
    lines = (f"POST /v1/chat/completions HTTP/{version}", "Content-Type: application/json", "Connection: close")
    with stand(ScriptPair(writes("ok")), max_body_mib=1) as served, connected(served) as sock:
        sock.sendall(head(*lines, f"Content-Length: {8 << 20}", host=host) + b" " * (8 << 20))
        answer = heard(sock)
        assert (answer.status, answer.error["code"]) == (status, code)
        assert answer.headers["connection"] == "close"


def drip(sock: socket.socket) -> None:
    while True:
        sock.sendall(b"x")
        time.sleep(0.01)


def test_a_refused_client_that_never_ends_its_body_is_not_heard_out_for_ever() -> None:
    with stand(ScriptPair(writes("ok")), upload_timeout=0.4) as served, connected(served) as sock:
        sock.sendall(head("POST /v1/x HTTP/1.1", "Connection: close", "Content-Length: 1000") + b"x")
        assert heard(sock).status == 404
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            drip(sock)


def test_a_server_that_stops_hears_nobody_out() -> None:
    with stand(ScriptPair(writes("ok")), upload_timeout=10_000) as served:
        sock = connected(served)
        sock.sendall(head("POST /v1/x HTTP/1.1", "Connection: close", "Content-Length: 1000") + b"x")
        assert heard(sock).status == 404
        # The end of this block waits for every connection.
    with sock, pytest.raises((BrokenPipeError, ConnectionResetError)):
        drip(sock)


def test_a_body_that_drips_is_refused_in_time_and_its_connection_ends() -> None:
    with stand(ScriptPair(writes("ok")), upload_timeout=0.4) as served, connected(served) as sock:
        sock.sendall(posted(b"{", 1000))
        came = b""
        sock.settimeout(0.05)
        while True:
            try:
                sock.sendall(b" ")
                part = sock.recv(1 << 16)
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                break
            came += part
            if not part:
                break
        assert b" 408 " in came.partition(b"\r\n")[0]
        assert b'"request_timeout"' in came


def test_a_head_that_drips_is_refused_in_time_and_silence_is_only_closed() -> None:
    with stand(ScriptPair(writes("ok")), upload_timeout=0.3) as served:
        answer = says(served, b"GET /ready HTTP/1.1\r\nHost: loc")
        assert (answer.status, answer.error["code"]) == (408, "request_timeout")
        with connected(served) as silent:
            assert silent.recv(100) == b""


def test_a_request_that_took_its_time_before_is_not_hurried_afterwards() -> None:
    with stand(ScriptPair(writes("slow answer", block=1), pace=0.15), upload_timeout=1.0) as served:
        assert served.post().json()["choices"][0]["message"]["content"] == "slow answer"


def stalled(served: Stand, **body: object) -> socket.socket:
    """A client that asks and then does not read: its window is small, so little is on its way to it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", served.port))
    sock.sendall(posted(json.dumps(asked(**body)).encode()))
    return sock


def rest_of(sock: socket.socket) -> bytes:
    """What still comes, until the server closes or resets."""
    came = b""
    sock.settimeout(10)
    with suppress(ConnectionResetError):
        while part := sock.recv(1 << 20):
            came += part
    return came


def test_a_client_that_does_not_read_its_stream_is_cut_off_and_its_slot_is_free() -> None:
    pair = ScriptPair(lambda _: [ids_of("x" * 50)] * 10_000, context_length=10**9, pace=0.005)
    with (
        stand(pair, concurrency=1, stall_timeout=0.5) as served,
        stalled(served, stream=True, logprobs=True, top_logprobs=20) as sock,
    ):
        served.wait_until(lambda: pair.sessions == 1)
        served.wait_until(lambda: served.engine.health.running == 0)
        assert served.post(max_tokens=3).status_code == 200
        # What was on its way still arrives, and then the stream is only cut.
        assert b"[DONE]" not in rest_of(sock)


def test_a_client_that_reads_in_time_is_not_cut_off() -> None:
    pair = ScriptPair(forever, pace=0.005, context_length=10**6)
    with (
        stand(pair, stall_timeout=0.3) as served,
        served.http.stream("POST", "/v1/chat/completions", json=asked(stream=True, max_tokens=300)) as response,
    ):
        assert "[DONE]" in "".join(response.iter_text())


def test_connections_beyond_the_limit_are_told_and_far_beyond_it_closed() -> None:
    with stand(ScriptPair(writes("ok")), max_connections=3) as served:
        served.http.close()
        held = [connected(served) for _ in range(3)]
        answer = says(served, head("GET /ready HTTP/1.1"))
        assert (answer.status, answer.error["code"]) == (503, "too_many_connections")
        assert int(answer.headers["retry-after"]) > 0
        held += [connected(served) for _ in range(BEYOND + 2)]
        assert rest_of(held[-1]) == b""
        for sock in held:
            sock.close()
        with connected(served) as sock:
            sock.sendall(head("GET /ready HTTP/1.1", "Connection: close"))
            assert heard(sock).status == 200
