"""Every knob of the server, its default and its flag; nothing else reads the environment."""

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

LogFormat = Literal["text", "json"]

Item = TypeVar("Item")

MOST_GIB = 2**20
"""No machine has more; beyond it lies what is no number of bytes, such as infinity."""


def _split(value: object) -> object:
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


Several = Annotated[tuple[Item, ...], NoDecode, BeforeValidator(_split)]
"""A flag that may be given several times; in the environment, commas part its values."""

ReasoningField = Literal["reasoning_content", "reasoning", "both"]


class Settings(BaseSettings):
    """A value comes from the command line, else from `LAGUNA_<NAME>` in the environment, else a file, else here."""

    model_config = SettingsConfigDict(env_prefix="LAGUNA_", frozen=True, extra="forbid")

    model: str | None = Field(None, description="Checkpoint: a folder or a hub id. Without it, the embedded pair.")
    revision: str | None = Field(None, description="Branch, tag or commit of the checkpoint, where it is a hub id.")
    speculator: str = Field("auto", description="DFlash speculator: a folder, a hub id, 'auto' or 'none'.")
    attention_factor: Literal["derived", "config"] = Field(
        "derived", description="YaRN's scale of queries and keys: derived, or the file's own where it states one."
    )
    quantize_speculator: Literal["off", "4"] = Field(
        "off",
        description="Bits to which the speculator's linear layers are quantised as they load; 'off': none.",
    )
    quantize_fp8: Literal["off", "8"] = Field(
        "off",
        description="Bits to which a target's FP8 weights are packed as they load; 'off': exact, in twice the memory.",
    )
    speculation: Literal["auto", "always", "off"] = Field(
        "auto", description="How eagerly to draft, for requests that do not say."
    )
    calibration: Path | None = Field(
        None, description="File of what decoding costs on this machine with this pair; without it, that is measured."
    )
    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    allowed_host: Several[str] = Field(
        (), description="Further name under which this server may be asked for (Host header); '*': any."
    )
    cors_origin: Several[str] = Field(
        (), description="Origin whose web pages may call this server, as https://example.org; '*': any."
    )
    api_key: Several[SecretStr] = Field(
        (), description="Key that opens the server; without one everybody who can reach it may use it."
    )
    api_key_file: Path | None = Field(None, description="File of such keys, one a line.")
    insecure: bool = Field(False, description="Listen beyond this machine without an API key.")
    max_connections: int = Field(128, ge=1, description="Connections that may be open; more are refused.")
    upload_timeout: float = Field(60.0, gt=0, description="Seconds in which a request must have arrived whole.")
    stall_timeout: float = Field(
        60.0, gt=0, description="Seconds after which a client that does not read its answer is cut off."
    )
    request_timeout: float | None = Field(
        None,
        gt=0,
        description="Seconds that an answer may take before it ends with an error. Without it, any.",
    )
    round_timeout: float = Field(
        300.0,
        gt=0,
        le=86_400,
        description="Seconds that a round may take before the engine counts as hung; after twice as many, as dead.",
    )
    concurrency: int = Field(8, ge=1, description="Requests that are decoded side by side.")
    queue: int = Field(64, ge=0, description="Requests that may wait for a place; more are refused.")
    prefill_chunk: int = Field(512, ge=1, description="Prompt tokens read in one round, beside the others' blocks.")
    context_length: int | None = Field(
        None, ge=2, description="Longest prompt and answer together, in tokens. Without it, the checkpoint's own."
    )
    memory_limit: float | None = Field(
        None,
        gt=0,
        le=MOST_GIB,
        description="Memory for weights and conversations, in GiB. Without it, what the machine says.",
    )
    kv_bits: Literal["off", "8", "4"] = Field(
        "off",
        description="Bits to which layers without a window pack what they remember: longer contexts, other texts.",
    )
    prefix_cache_gib: float | None = Field(
        None,
        ge=0,
        le=MOST_GIB,
        description="Memory in which the caches of earlier prompts are kept, in GiB; 0: none. "
        "Without it, a quarter of what the weights leave.",
    )
    cache_dir: str | None = Field(
        None, description="Folder in which they are kept for later starts too. Without it, in memory alone."
    )
    cache_dir_gib: float = Field(32.0, gt=0, le=MOST_GIB, description="Most that this folder may hold, in GiB.")
    max_body_mib: int = Field(8, ge=1, description="Largest request body, in MiB.")
    keep_alive: float = Field(10.0, gt=0, description="Seconds between the comments that keep a stream open.")
    shutdown_grace: float = Field(
        2.0, ge=0, le=86_400, description="Seconds that running requests get to end when the server stops."
    )
    responses_kept: int = Field(
        256, ge=0, description="Answers of /v1/responses kept for requests that go on from them; 0: none."
    )
    responses_kept_mib: int = Field(64, ge=1, description="Most memory for them, in MiB.")
    reasoning_field: ReasoningField = Field(
        "reasoning_content", description="The name under which reasoning is sent: one of the two in use, or both."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is logged.")
    log_format: LogFormat = Field("text", description="How: lines for people, or a JSON object a line.")
    log_prompts: bool = Field(False, description="Log prompts too, which nothing does otherwise.")


class Folders(BaseSettings):
    """Where a user's own files lie, as the XDG base directories say."""

    model_config = SettingsConfigDict(frozen=True, env_ignore_empty=True)

    xdg_config_home: Path = Path("~/.config")
    xdg_state_home: Path = Path("~/.local/state")
