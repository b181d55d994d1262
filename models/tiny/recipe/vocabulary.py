"""The embedded pair's tokenizer: byte-level BPE whose control tokens have the real vocabulary's names and ids."""

import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors, trainers
from tokenizers.decoders import ByteLevel

from models.tiny.recipe.chats import training
from models.tiny.recipe.rendering import render

VOCABULARY = 1024
WRITTEN = ("tokenizer.json", "tokenizer_config.json")
EOS, PAD, MASK = "〈|EOS|〉", "〈|PAD|〉", "〈|MASK|〉"
NAMED = {
    0: "〈|UNK|〉", 2: EOS, 9: PAD, 12: MASK, 18: "<think>", 19: "</think>",
    23: "<assistant>", 24: "</assistant>", 25: "<tool_call>", 26: "</tool_call>",
}  # fmt: skip
CONTROL = [NAMED.get(i, f"〈|RESERVED_{i}|〉") for i in range(27)]
# Tags open with their first word, a name keeps its underscore, digits and spaces stand alone, and JSON's punctuation
# joins: so a copied value has the same tokens wherever it stands.
PIECES = r"""</?[a-z]+|_?[A-Za-z]+|\d|["}\]]+[:,]?(?: ["\[{]+)?|[\["{]+|\s|."""


def build(folder: Path, chats: int = 6000) -> Tokenizer:
    """Train on rendered training chats and write tokenizer.json and tokenizer_config.json into `folder`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PIECES), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    tokenizer.decoder = ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=CONTROL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((render(training(i)) for i in range(chats)), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{EOS} $A", special_tokens=[(EOS, 2)])
    document = json.loads(tokenizer.to_str())
    for token in document["added_tokens"]:
        # The published vocabularies mark the tags as added but not special, so that text keeps them.
        token["special"] = token["content"].startswith("〈")
    (folder / "tokenizer.json").write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": EOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "mask_token": MASK,
        "unk_token": NAMED[0],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 4096,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=2) + "\n")
    return Tokenizer.from_str(json.dumps(document))
