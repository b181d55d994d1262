"""A conversion that names another dialect's parser is still read by Laguna's own reader."""

import json
from functools import partial
from pathlib import Path

import httpx2
import pytest

from models.checkpoint import embedded_path
from models.runtime import load_runtime
from server.settings import Settings
from tests.server.embedded import ASK, WEATHER
from tests.server.stand import running, wait_until


@pytest.mark.parametrize("stated", ["glm47", "json_tools"])
def test_the_reader_is_lagunas_whatever_parser_the_tokenizer_config_names(tmp_path: Path, stated: str) -> None:
    embedded = embedded_path()
    for file in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / file).symlink_to(embedded / file)
    config = json.loads((embedded / "tokenizer_config.json").read_text("utf-8"))
    template = (embedded / "chat_template.jinja").read_text("utf-8")
    config |= {"tool_parser_type": stated, "chat_template": template}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    body = {"model": tmp_path.name, "messages": [ASK], "tools": [WEATHER], "temperature": 0}
    with (
        running(partial(load_runtime, str(tmp_path), "none"), Settings()) as (port, engine),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
    ):
        wait_until(lambda: engine.health.state != "loading")
        choice = http.post("/v1/chat/completions", json=body).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])["city"]) == ("get_weather", "Oslo")
