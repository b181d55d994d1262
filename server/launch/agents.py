"""What each agent has to be told to use this server: variables and arguments. A table; nothing is done here.

From the agents' own documentation and, where the README says so, from running them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"

NO_KEY = "unused"
"""What is said to agents that want a key, where the server wants none."""
PATIENCE_MS = "3600000"
"""Agents that count silence must wait as long as a long prompt takes."""
OUTPUT = 32_000
"""Most tokens that an agent should plan for one answer."""


@dataclass(frozen=True)
class Endpoint:
    """The server as an agent sees it; a context of None is not known."""

    url: str
    """Without a path."""
    key: str
    model: str
    context_length: int | None

    @property
    def v1(self) -> str:
        """The base of OpenAI's dialects."""
        return f"{self.url}/v1"


@dataclass(frozen=True)
class Setup:
    """How an agent is started.

    Attributes:
        environment: variables that are set.
        arguments: what comes before the user's own arguments.
        unset: variables that would come before these, and are taken away.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    unset: tuple[str, ...] = ()


@dataclass(frozen=True)
class Agent:
    """An agent that can be started."""

    program: str
    dialect: str
    """The route without which it cannot work."""
    install: str
    """Where to get it."""
    setup: Callable[[Endpoint], Setup]


def _opencode(to: Endpoint) -> Setup:
    """A provider of its own, in a configuration that is merged over the user's."""
    limit = {} if to.context_length is None else _limit(to.context_length)
    model = {
        "name": to.model,
        "tool_call": True,
        "reasoning": True,
        # Thinking goes back with the history; Laguna stops thinking where it does not.
        "interleaved": {"field": "reasoning_content"},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Laguna (local)",
        "options": {"baseURL": to.v1, "apiKey": to.key},
        "models": {to.model: model | limit},
    }
    name = f"laguna/{to.model}"
    config = {"model": name, "small_model": name, "provider": {"laguna": provider}}
    return Setup({"OPENCODE_CONFIG_CONTENT": json.dumps({"$schema": "https://opencode.ai/config.json", **config})})


def _limit(context: int) -> dict[str, dict[str, int]]:
    return {"limit": {"context": context, "output": min(OUTPUT, context // 2)}}


def _codex(to: Endpoint) -> Setup:
    """A provider on the command line; the values are TOML, of which JSON's strings are a part."""
    told: dict[str, str | int] = {
        "model": to.model,
        "model_provider": "laguna",
        "model_providers.laguna.name": "Laguna (local)",
        "model_providers.laguna.base_url": to.v1,
        "model_providers.laguna.wire_api": "responses",
        "model_providers.laguna.env_key": "CODEX_LAGUNA_KEY",
        "model_providers.laguna.stream_idle_timeout_ms": int(PATIENCE_MS),
    }
    if to.context_length is not None:
        told["model_context_window"] = to.context_length
    arguments = [part for name, value in told.items() for part in ("-c", f"{name}={json.dumps(value)}")]
    return Setup({"CODEX_LAGUNA_KEY": to.key}, tuple(arguments))


def _claude(to: Endpoint) -> Setup:
    """Every kind of model that it asks for is the one served."""
    models = ("ANTHROPIC_MODEL", *(f"ANTHROPIC_DEFAULT_{kind}_MODEL" for kind in ("OPUS", "SONNET", "HAIKU")))
    told = {
        "ANTHROPIC_BASE_URL": to.url,
        "ANTHROPIC_AUTH_TOKEN": to.key,
        "API_TIMEOUT_MS": PATIENCE_MS,
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    return Setup(told | dict.fromkeys(models, to.model), unset=("ANTHROPIC_API_KEY",))


def _qwen(to: Endpoint) -> Setup:
    told = {"OPENAI_BASE_URL": to.v1, "OPENAI_API_KEY": to.key, "OPENAI_MODEL": to.model}
    return Setup(told, ("--auth-type", "openai"))


def _aider(to: Endpoint) -> Setup:
    told = {"OPENAI_API_BASE": to.v1, "OPENAI_API_KEY": to.key}
    return Setup(told, ("--model", f"openai/{to.model}", "--no-show-model-warnings"))


def _pool(to: Endpoint) -> Setup:
    return Setup({"POOLSIDE_STANDALONE_BASE_URL": to.v1, "POOLSIDE_API_KEY": to.key}, ("-m", to.model))


AGENTS: Mapping[str, Agent] = {
    "opencode": Agent("opencode", CHAT, "npm install -g opencode-ai", _opencode),
    "codex": Agent("codex", RESPONSES, "npm install -g @openai/codex", _codex),
    "claude": Agent("claude", MESSAGES, "npm install -g @anthropic-ai/claude-code", _claude),
    "qwen": Agent("qwen", CHAT, "npm install -g @qwen-code/qwen-code", _qwen),
    "aider": Agent("aider", CHAT, "pip install aider-chat", _aider),
    "pool": Agent("pool", CHAT, "see https://github.com/poolsideai/pool", _pool),
}
"""Every agent by the name it is launched by."""
