"""Messages to ids and ids to text, with the checkpoint's own template and vocabulary.

Built on `tokenizers` and Jinja alone: what a checkpoint's files say is what happens, with no class looked up by name.
"""

import codecs
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tokenizers

from models.config import read_json
from models.encoding import PromptEncoder, exact, special_tokens
from models.messages import MessageError, TemplateError, for_template
from models.spelling import RAW, Rendered, Spellings, rendered
from models.template import ChatTemplate

__all__ = ["MessageError", "TemplateError", "TextDecoder", "Tokenizer", "TokenizerError"]

TURN_CLOSER = "</assistant>"
"""What the template writes after an assistant's turn; a model that writes it has finished, whatever the configs say."""

LAGUNA_PARSERS = ("laguna", "poolside_v1")
"""What other servers call a reader of this dialect; conversions also name one of a neighbouring dialect, 'glm47'."""

log = logging.getLogger(__name__)

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class TokenizerError(ValueError):
    """The checkpoint's tokenizer files say something we cannot honour."""


class TextDecoder:
    """Ids in, whole characters out: a character's bytes may be spread over several tokens, and blocks cut anywhere.

    The pieces join to the decoding of all ids at once; bytes that are not UTF-8 become U+FFFD, as they do there.
    """

    def __init__(self, bytes_of: Mapping[int, bytes]) -> None:
        self._bytes_of = bytes_of
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, ids: Iterable[int]) -> str:
        """The text that these ids complete. An id without a token (a padding row of the head) says nothing."""
        return self._utf8.decode(b"".join(self._bytes_of.get(id_, b"") for id_ in ids))

    def finish(self) -> str:
        """What is left of a character that was never completed: U+FFFD once, then nothing."""
        return self._utf8.decode(b"", final=True)


@dataclass(frozen=True)
class Tokenizer:
    """One checkpoint's vocabulary and chat template. Safe to use from any thread."""

    eos_ids: frozenset[int]
    """Ids that end a turn: those of both configs, the tokenizer and the template; any of them alone is incomplete."""
    vocab_size: int
    """One more than the highest id that has a token; the network's head may be wider."""
    opening_ids: tuple[int, ...]
    """What the tokenizer puts before a text that no template writes; templates write it themselves."""
    _encoder: tokenizers.Tokenizer
    _bytes_of: Mapping[int, bytes]
    _template: ChatTemplate
    _spellings: Spellings
    _prompts: PromptEncoder

    @classmethod
    def load(cls, folder: Path, *, eos_ids: Iterable[int] = ()) -> "Tokenizer":
        """Read tokenizer.json, tokenizer_config.json and the template of a checkpoint folder.

        Args:
            folder: the checkpoint's.
            eos_ids: those that its other files name (`models.generation.read_generation`).

        Raises:
            ConfigError: a file is missing or holds no JSON object.
            TokenizerError: the vocabulary is damaged or not byte-level, or nothing ends a turn.
            TemplateError: the chat template is missing or does not compile.
        """
        encoder = _encoder(folder)
        config = read_json(folder / "tokenizer_config.json")
        if config.get("tool_parser_type") not in (None, *LAGUNA_PARSERS):
            log.info("tool_parser_type %r is not used: Laguna's own reader is", config["tool_parser_type"])
        specials = _special_tokens(config)
        vocabulary = encoder.get_vocab(with_added_tokens=True)
        ends = _turn_ends(specials, vocabulary) | set(eos_ids)
        if not ends:
            raise TokenizerError(f"nothing in {folder} says which token ends a turn: no eos_token_id, no {TURN_CLOSER}")
        return cls(
            eos_ids=frozenset(ends),
            vocab_size=max(vocabulary.values()) + 1,
            opening_ids=_opening(encoder),
            _encoder=encoder,
            _bytes_of=_byte_table(encoder),
            _template=ChatTemplate.load(folder, config, specials),
            _spellings=Spellings(special_tokens(encoder).values()),
            _prompts=PromptEncoder(encoder),
        )

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **template_kwargs: object,
    ) -> str:
        """The prompt for these OpenAI-shaped messages, ending where the assistant begins to speak.

        `template_kwargs` reach the template as they are (`enable_thinking`, `preserve_thinking`); what the caller
        leaves out is the template's own default.

        Raises:
            MessageError: a message cannot be shown; its `path` names the place.
            TemplateError: the template refuses or fails, or an argument has a reserved name.
        """
        return self.render_marked(messages, tools, **template_kwargs).text

    def render_marked(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **template_kwargs: object,
    ) -> Rendered:
        """The same, with what the messages, the tools and the arguments spell told apart from what the template wrote.

        Raises:
            MessageError, TemplateError: as `render`; also where the messages use up every mark.
        """
        plain, shown = for_template(messages), list(tools) if tools else None
        mark = self._spellings.mark(plain, shown, template_kwargs)
        if not mark:
            return rendered(self._template.render(plain, shown, **template_kwargs), mark)
        try:
            plain = self._spellings.marked_messages(plain, mark, raw=bool(template_kwargs.get(RAW)))
            shown, kwargs = (self._spellings.marked(value, mark) for value in (shown, template_kwargs))
        except RecursionError as error:
            raise TemplateError("the messages are nested too deeply") from error
        return rendered(self._template.render(plain, shown, **kwargs), mark)

    def encode(self, text: str) -> list[int]:
        """Ids of rendered text; nothing is added, since the template writes the opening token itself.

        Half a UTF-16 pair (clients cut strings in the middle of one) has no UTF-8 and is read as U+FFFD.
        """
        whole = _LONE_SURROGATE.sub("\ufffd", text)
        # Unlike `encode`, this lets other threads run meanwhile; a long prompt would stop them all for seconds.
        return self._encoder.encode_batch_fast([whole], add_special_tokens=False)[0].ids

    def token_id(self, text: str) -> int | None:
        """The id of the token that is written exactly so; None where there is none."""
        return self._encoder.token_to_id(text)

    def bytes_of(self, id_: int) -> bytes:
        """The bytes one token stands for, which may be part of a character; none for an id without a token."""
        return self._bytes_of.get(id_, b"")

    def encode_at(self, prompt: Rendered, places: Sequence[int]) -> tuple[list[int], list[int]]:
        """Ids of a prompt, in which what messages spell is ordinary text and everything else is as `encode` has it.

        Beside them, for each of the characters `places` of `prompt.marked`, how many ids lie wholly before it.
        """
        whole = replace(prompt, marked=_LONE_SURROGATE.sub("\ufffd", prompt.marked))
        return self._prompts.encode_at(whole, places)

    def decoder(self) -> TextDecoder:
        """A fresh decoder for one answer; added tokens such as `<tool_call>` come out as their literal text."""
        return TextDecoder(self._bytes_of)


def _encoder(folder: Path) -> tokenizers.Tokenizer:
    """What tokenizer.json describes."""
    decoder = read_json(folder / "tokenizer.json").get("decoder")
    if not _is_byte_level(decoder):
        raise TokenizerError(f"{folder}/tokenizer.json: the decoder must be ByteLevel, and it is {decoder}")
    try:
        encoder = exact(tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")))
    # `tokenizers` raises nothing more specific.
    except Exception as error:
        raise TokenizerError(f"{folder}/tokenizer.json cannot be used: {error}") from error
    # A length limit or a padding left in the file would change prompts in silence.
    encoder.no_truncation()
    encoder.no_padding()
    return encoder


def _is_byte_level(decoder: object) -> bool:
    match decoder:
        case {"type": "ByteLevel"}:
            return True
        case {"type": "Sequence", "decoders": list(steps)}:
            return any(_is_byte_level(step) for step in steps) and all(
                step == {"type": "Fuse"} or _is_byte_level(step) for step in steps
            )
    return False


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """`bos_token`, `eos_token` and so on: a string, or an object that holds it."""
    tokens: dict[str, str] = {}
    for name, token in config.items():
        match token:
            case str(text) | {"content": str(text)} if name.endswith("_token"):
                tokens[name] = text
    return tokens


def _turn_ends(specials: Mapping[str, str], vocabulary: Mapping[str, int]) -> set[int]:
    """The tokenizer's own EOS and the template's turn closer, as far as they are single tokens."""
    return {vocabulary[text] for text in (specials.get("eos_token", TURN_CLOSER), TURN_CLOSER) if text in vocabulary}


def _opening(encoder: tokenizers.Tokenizer) -> tuple[int, ...]:
    """What its post-processor adds before a text."""
    with_it, without = (encoder.encode("a", add_special_tokens=added).ids for added in (True, False))
    return tuple(with_it[: max(len(with_it) - len(without), 0)]) if with_it[-len(without) :] == without else ()


def _byte_table(encoder: tokenizers.Tokenizer) -> dict[int, bytes]:
    """The bytes of every token: added tokens are literal text, all others are spelt in the byte-level alphabet."""
    alphabet = byte_alphabet()
    table = {
        id_: bytes(alphabet[character] for character in token)
        for token, id_ in encoder.get_vocab(with_added_tokens=False).items()
        if alphabet.keys() >= set(token)
    }
    added = encoder.get_added_tokens_decoder()
    rest = {id_: token for token, id_ in encoder.get_vocab(with_added_tokens=True).items() if id_ not in table}
    literal = rest | {id_: token.content for id_, token in added.items()}
    return table | {id_: text.encode() for id_, text in literal.items()}


def byte_alphabet() -> dict[str, int]:
    """The printable stand-in of each byte: itself where that prints, else the next free code point from 256 on.

    Source: GPT-2's `bytes_to_unicode`, which `tokenizers`' ByteLevel follows.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}
