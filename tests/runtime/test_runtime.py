"""A checkpoint folder made into something that answers."""

import shutil
from pathlib import Path

import pytest

from models.config_fields import ConfigError
from models.decode.session import Request, Sampling, Speculation
from models.errors import CheckpointError, PairError
from models.loading import Loading
from models.messages import TemplateError
from models.runtime import Runtime, load_runtime
from models.tokenizer import TokenizerError
from tests.models.tiny_checkpoint import write_pair
from tests.runtime.checkpoint_files import byte_level_bpe, write_json, write_tokenizer

VOCABULARY = byte_level_bpe().get_vocab(with_added_tokens=True)
WIDTH = 384
SIZES = {"vocab_size": WIDTH, "draft_vocab_size": WIDTH}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random pair with the made-up tokenizer, in a folder of the checkpoint's name."""
    folder = tmp_path_factory.mktemp("models") / "Laguna-Random"
    write_pair(folder, speculator=SIZES, max_position_embeddings=640, vocab_size=WIDTH)
    return write_tokenizer(folder)


@pytest.fixture(scope="module")
def runtime(folder: Path) -> Runtime:
    return load_runtime(str(folder))


def answer(runtime: Runtime, speculation: Speculation) -> tuple[int, ...]:
    prompt = tuple(runtime.tokenizer.encode(runtime.tokenizer.render([{"role": "user", "content": "hi"}])))
    batch = runtime.batch(prefill_chunk=16)
    batch.add(Request(prompt, Sampling(temperature=1.0, seed=5), 24, runtime.tokenizer.eos_ids, speculation))
    ids: list[int] = []
    while batch.sessions:
        for update in batch.step():
            assert update.error is None
            ids += update.ids
    return tuple(ids)


def test_a_folder_is_called_by_its_own_name(runtime: Runtime) -> None:
    assert runtime.model_id == "Laguna-Random"


def test_everything_a_checkpoint_says_is_at_hand(runtime: Runtime) -> None:
    assert runtime.speculator is not None
    assert runtime.speculation_off is None
    assert (runtime.target.vocab_size, runtime.speculator.block_size, runtime.context_length) == (WIDTH, 8, 640)
    assert runtime.tokenizer.eos_ids >= {2, 24, VOCABULARY["</assistant>"]}
    defaults = runtime.sampling_defaults
    assert (defaults.temperature, defaults.top_k, defaults.top_p, defaults.min_p) == (1.0, 20, 1.0, 0.0)
    assert runtime.default_chat_template_kwargs == {}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b"\xff{}"),
        ("config.json", b'{"architectures": 5}'),
        ("generation_config.json", b"{"),
        ("tokenizer_config.json", b"\xff{}"),
        ("tokenizer.json", b'{"decoder": {"type": "ByteLevel"}}'),
        ("chat_template.jinja", b"\xff"),
        ("model.safetensors", None),
        ("model.safetensors", b"\xff" * 100),
        ("speculator/config.json", b"[]"),
        ("speculator/model.safetensors", None),
    ],
)
def test_a_damaged_file_is_refused_by_name(folder: Path, tmp_path: Path, file: str, content: bytes | None) -> None:
    damaged = shutil.copytree(folder, tmp_path / "copy")
    whole = (damaged / file).read_bytes() if content is None else b""
    (damaged / file).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises((CheckpointError, ConfigError, TemplateError, TokenizerError)):
        load_runtime(str(damaged))


def test_it_answers_the_same_with_and_without_its_speculator(folder: Path, runtime: Runtime) -> None:
    plain = load_runtime(str(folder), "none")
    assert plain.speculator is None
    assert plain.speculation_off == "the server runs without a speculator"
    assert answer(runtime, "always") == answer(runtime, "off") == answer(plain, "auto")


def test_a_speculator_may_lie_anywhere(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "alone").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "alone" / name).symlink_to(folder / "speculator" / name)
    assert load_runtime(str(folder), str(tmp_path / "alone")).speculator is not None


def test_without_a_speculator_beside_it_the_reason_is_told(tmp_path: Path) -> None:
    write_pair(tmp_path, vocab_size=WIDTH)
    write_tokenizer(tmp_path)
    (tmp_path / "speculator" / "config.json").unlink()
    runtime = load_runtime(str(tmp_path))
    assert runtime.speculator is None
    assert runtime.speculator_id is None
    assert (runtime.speculation_off or "").startswith("the checkpoint has no speculator beside it")


def test_the_published_partner_is_taken_by_itself_and_an_unusable_one_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    target, drafts = write_pair(tmp_path / "target", vocab_size=WIDTH, speculator=SIZES)
    write_tokenizer(target)
    folders = {"poolside/Laguna-S-2.1-INT4": target, "poolside/Laguna-S-2.1-DFlash-INT4": tmp_path / "drafts"}
    drafts.rename(tmp_path / "drafts")
    monkeypatch.setattr("models.runtime.find_checkpoint", lambda name, *_, **__: folders[name])
    runtime = load_runtime("poolside/Laguna-S-2.1-INT4")
    assert runtime.speculator is not None
    assert (runtime.speculator_id, runtime.speculation_off) == ("poolside/Laguna-S-2.1-DFlash-INT4", None)
    (tmp_path / "drafts" / "model.safetensors").write_bytes(b"")
    runtime = load_runtime("poolside/Laguna-S-2.1-INT4")
    assert runtime.speculator is None
    why = "its speculator poolside/Laguna-S-2.1-DFlash-INT4 cannot be used; the server's log says why"
    assert (runtime.speculation_off, runtime.warnings) == (why, ())
    assert "drafts/model.safetensors: 0 bytes" in caplog.text


def test_what_one_pair_keeps_is_read_by_no_pair_that_computes_otherwise(runtime: Runtime, folder: Path) -> None:
    ways = [{}, {"kv_bits": 8}, {"kv_bits": 4}, {"speculator_bits": 4}, {"attention_factor": "config"}, {"fp8_bits": 8}]
    names = [load_runtime(loading=Loading(**way)).fingerprint for way in ways]  # ty: ignore[invalid-argument-type]
    names += [load_runtime(None, "none").fingerprint, runtime.fingerprint]
    assert len(set(names)) == len(names)
    assert load_runtime(str(folder)).fingerprint == runtime.fingerprint


def test_a_mask_that_is_another_token_of_the_vocabulary_is_told(runtime: Runtime) -> None:
    (warning,) = runtime.warnings
    assert f"mask_token_id is 12, but 〈|MASK|〉 is token {VOCABULARY['〈|MASK|〉']}" in warning


def test_a_speculator_of_another_target_is_refused(tmp_path: Path, folder: Path) -> None:
    write_pair(tmp_path)
    with pytest.raises(PairError, match="vocab_size"):
        load_runtime(str(folder), str(tmp_path / "speculator"))


def test_a_speculator_is_not_taken_for_a_model(folder: Path) -> None:
    with pytest.raises(CheckpointError, match="is a speculator"):
        load_runtime(str(folder / "speculator"))


def test_a_vocabulary_wider_than_the_network_is_refused(tmp_path: Path) -> None:
    write_pair(tmp_path)
    write_tokenizer(tmp_path)
    with pytest.raises(CheckpointError, match=f"{len(VOCABULARY)} tokens, but the network knows only 97"):
        load_runtime(str(tmp_path))


def test_what_the_template_is_told_by_default_comes_from_the_checkpoint(tmp_path: Path) -> None:
    write_pair(tmp_path, vocab_size=WIDTH)
    write_tokenizer(tmp_path)
    write_json(tmp_path / "generation_config.json", {"default_chat_template_kwargs": {"enable_thinking": True}})
    runtime = load_runtime(str(tmp_path), "none")
    assert runtime.default_chat_template_kwargs == {"enable_thinking": True}
    assert (runtime.sampling_defaults.temperature, runtime.sampling_defaults.top_k) == (1.0, 0)


def test_a_sampling_default_that_cannot_be_honoured_is_refused(tmp_path: Path) -> None:
    write_pair(tmp_path, vocab_size=WIDTH)
    write_tokenizer(tmp_path)
    write_json(tmp_path / "generation_config.json", {"temperature": "hot"})
    with pytest.raises(ConfigError, match="temperature is 'hot'"):
        load_runtime(str(tmp_path), "none")


def test_a_name_that_is_no_checkpoint_is_refused() -> None:
    with pytest.raises(CheckpointError, match="no checkpoint"):
        load_runtime("/nowhere/at/all")
