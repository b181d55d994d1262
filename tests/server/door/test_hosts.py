"""Only who asks for this server by a name of its own is answered, and only pages of allowed origins may read it."""

import httpx2
import pytest
from fastapi import FastAPI

from server.api.refused import refused as refused_answer
from server.door.answering import UnsafeSettings
from server.door.entrance import guard
from server.door.hosts import Names, is_loopback, named
from server.settings import Settings
from server.verdicts import MESSAGE_LIMIT
from tests.server.script import ScriptPair, says
from tests.server.stand import Stand, asked, stand
from tests.server.wire import refused

PAGE = "https://page.example"
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("Localhost:8000", "localhost"),
        ("localhost.", "localhost"),
        ("[::1]:8000", "::1"),
        ("::1", "::1"),
        ("127.0.0.1", "127.0.0.1"),
        ("evil.example:8000", "evil.example"),
        ("", ""),
    ],
)
def test_a_host_is_read_without_its_port(host: str, name: str) -> None:
    assert named(host) == name


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.2", "localhost.example", "")))


def test_names_are_those_of_the_bound_host_and_the_allowed_ones() -> None:
    local = Names.of("127.0.0.1", ["mac.local"])
    assert all(map(local.hold, ("localhost:1", "127.0.0.1:1", "[::1]:1", "127.0.0.2", "MAC.local:8000")))
    assert not any(map(local.hold, ("evil.example", "192.168.1.2", "localhost.evil.example", "", "127.0.0.1.nip.io")))
    wide = Names.of("0.0.0.0", [])
    assert all(map(wide.hold, ("192.168.1.2:8000", "[fe80::1]:8000", "localhost")))
    assert not any(map(wide.hold, ("evil.example", "mac.local", "")))
    assert Names.of("127.0.0.1", ["*"]).hold("anything")


def test_a_name_that_was_rebound_to_this_address_is_refused_on_every_route() -> None:
    with stand(ScriptPair(says("ok"))) as served:
        evil = {"host": f"evil.example:{served.port}"}
        for response in (
            served.http.post("/v1/chat/completions", json=asked(), headers=evil),
            served.http.get("/health", headers=evil),
            served.http.get("/nowhere", headers=evil),
        ):
            error = refused(response)
            assert (response.status_code, error["code"]) == (421, "host_not_allowed")
            assert "evil.example" in error["message"]
            assert "--allowed-host" in error["message"]
            assert response.headers["x-request-id"]
        assert served.pair.requests == []
        response = served.http.post("/v1/messages", json={}, headers=evil)
        assert response.json()["error"]["type"] == "invalid_request_error"
        assert response.json()["type"] == "error"
        long = served.http.get("/health", headers={"host": "x" * 5000})
        assert len(refused(long)["message"]) < MESSAGE_LIMIT


def test_an_allowed_host_is_answered() -> None:
    with stand(ScriptPair(says("ok")), allowed_host="mac.local, box.lan") as served:
        for host in ("mac.local:8000", "BOX.lan", f"localhost:{served.port}"):
            assert served.http.get("/ready", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("name", ["http://mac.local", "mac local", "a/b"])
def test_a_host_that_no_header_can_name_is_refused_before_the_start(name: str) -> None:
    with pytest.raises(UnsafeSettings, match="is no host"):
        Names.of("127.0.0.1", [name])


@pytest.mark.parametrize("origin", ["page.example", "https://page.example/", "https://Page.example", "null"])
def test_an_origin_that_no_browser_sends_is_refused_before_the_start(origin: str) -> None:
    with pytest.raises(UnsafeSettings, match="is no origin"):
        guard(FastAPI(), Settings(cors_origin=(origin,)), refused_answer)


def preflight(served: Stand, origin: str, **more: str) -> httpx2.Response:
    headers = {"origin": origin} | PREFLIGHT | {name.replace("_", "-"): value for name, value in more.items()}
    return served.http.options("/v1/chat/completions", headers=headers)


def test_no_page_may_read_anything_unless_its_origin_is_given() -> None:
    with stand(ScriptPair(says("ok"))) as served:
        asked_of = served.http.get("/v1/models", headers={"origin": PAGE})
        for response in (asked_of, preflight(served, PAGE)):
            assert not [name for name in response.headers if name.startswith("access-control")]
        assert preflight(served, PAGE).status_code == 405


def test_a_given_origin_may_and_others_may_not() -> None:
    with stand(ScriptPair(says("ok")), cors_origin=PAGE, api_key="k1") as served:
        asks = preflight(served, PAGE, access_control_request_private_network="true")
        assert asks.status_code == 200
        assert asks.headers["access-control-allow-origin"] == PAGE
        assert asks.headers["access-control-allow-private-network"] == "true"
        assert "authorization" in asks.headers["access-control-allow-headers"]
        assert "access-control-allow-credentials" not in asks.headers
        bearer = {"authorization": "Bearer k1", "origin": PAGE}
        response = served.http.post("/v1/chat/completions", json=asked(), headers=bearer)
        assert response.headers["access-control-allow-origin"] == PAGE
        assert "x-request-id" in response.headers["access-control-expose-headers"]
        # A page must be able to read why it was refused.
        keyless = served.http.get("/v1/models", headers={"origin": PAGE})
        assert (keyless.status_code, keyless.headers["access-control-allow-origin"]) == (401, PAGE)
        for other in ("https://other.example", "null", f"{PAGE}.evil.example"):
            assert "access-control-allow-origin" not in preflight(served, other).headers
            assert "access-control-allow-origin" not in served.http.get("/ready", headers={"origin": other}).headers
