"""With keys, nobody gets past the door without one; without keys, nobody beyond this machine gets to it."""

import logging
from pathlib import Path

import openai
import pytest

from server.door.answering import UnsafeSettings
from server.door.keys import OPEN, Keys, keys_of
from server.serving import run
from server.settings import Settings
from tests.server.script import ScriptPair, says
from tests.server.stand import asked, stand
from tests.server.wire import refused


def test_each_of_several_keys_opens_and_in_both_headers() -> None:
    with stand(ScriptPair(says("ok")), api_key=["key-one", "key-two"]) as served:
        for headers in (
            {"authorization": "Bearer key-one"},
            {"authorization": "bearer  key-two"},
            {"x-api-key": "key-two"},
            {"authorization": "Bearer wrong", "x-api-key": "key-one"},
        ):
            assert served.http.post("/v1/chat/completions", json=asked(), headers=headers).status_code == 200
        assert served.sdk.with_options(api_key="key-two").models.list().data[0].id == "poolside/Laguna-Script"
        with pytest.raises(openai.AuthenticationError):
            served.sdk.models.list()


def test_without_a_key_that_opens_every_route_is_closed_and_says_so() -> None:
    with stand(ScriptPair(says("ok")), api_key="key-one") as served:
        for headers in (
            {},
            {"authorization": "Bearer key-on"},
            {"authorization": "Bearer key-one2"},
            {"authorization": "Basic key-one"},
            {"authorization": "Bearer"},
            {"x-api-key": "KEY-ONE"},
        ):
            for path in (
                "/v1/models",
                "/v1/chat/completions",
                "/metrics",
                "/v1",
                "/nowhere",
                "/health/",
                "/static/%2e%2e/metrics",
            ):
                response = served.http.get(path, headers=headers)
                error = refused(response)
                assert (response.status_code, error["type"]) == (401, "authentication_error")
                assert error["code"] == "invalid_api_key"
                assert response.headers["www-authenticate"] == "Bearer"
                assert "key-on" not in response.text
        assert served.pair.requests == []
        response = served.http.post("/v1/messages", json={})
        assert response.json()["error"]["type"] == "authentication_error"


def test_who_watches_over_the_server_needs_no_key_and_neither_does_a_page() -> None:
    with stand(ScriptPair(says("ok")), api_key="key-one") as served:
        assert {served.http.get(path).status_code for path in ("/health", "/ready")} == {200}
        assert {served.http.get(path).status_code for path in (*OPEN, "/static/page.css")} <= {200, 404}


def test_keys_come_from_flags_the_environment_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("# laptops\nfile-key\n\n  second \n")
    file.chmod(0o600)
    monkeypatch.setenv("LAGUNA_API_KEY", "one, two")
    settings = Settings(api_key_file=file)
    keys = keys_of(settings)
    assert len(keys) == 4
    assert all(map(keys.open_with, ("one", "two", "file-key", "second")))
    assert not any(map(keys.open_with, ("", "# laptops", "one, two", "three")))
    assert "two" not in repr(settings)


def test_a_file_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "keys"
    file.write_text("file-key\n")
    file.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        keys_of(Settings(api_key_file=file))
    assert "chmod 600" in caplog.text
    assert "file-key" not in caplog.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "box.lan"])
def test_other_machines_are_let_in_only_with_a_key_or_when_told_so(host: str) -> None:
    with pytest.raises(UnsafeSettings, match="no API key is set"):
        keys_of(Settings(host=host))
    assert len(keys_of(Settings(host=host, insecure=True))) == 0
    assert len(keys_of(Settings.model_validate({"host": host, "api_key": "k"}))) == 1


@pytest.mark.parametrize("key", ["", "two words", "k\u00e9y", "a\nb"])
def test_a_key_that_no_header_can_carry_is_refused(key: str) -> None:
    with pytest.raises(UnsafeSettings, match="printable"):
        keys_of(Settings.model_validate({"api_key": [key]}))


def test_a_file_without_keys_does_not_open_the_server(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("# none yet\n")
    for name, said in (("empty", "holds none"), ("missing", "cannot be read")):
        with pytest.raises(UnsafeSettings, match=said):
            keys_of(Settings(api_key_file=tmp_path / name))


def test_an_unsafe_server_does_not_start(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    # The handler would outlive the test, and what it writes to.
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    settings = Settings(host="0.0.0.0", port=0)
    assert run(settings, lambda: pytest.fail("the model was loaded")) == 2
    assert "--insecure" in caplog.text


def test_only_digests_of_keys_are_held() -> None:
    assert "secret-key" not in repr(vars(Keys(["secret-key"])))
