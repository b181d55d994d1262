"""The README tells the truth about commands, slash commands and agents."""

import json
import re
import tomllib
from pathlib import Path

from click.testing import CliRunner

from server.chat.slash import COMMANDS
from server.cli import main
from server.launch.agents import AGENTS, Endpoint, Setup
from tests.runtime.readme import README


def section(title: str) -> str:
    """A section's text, up to the next one."""
    return re.split(r"^#{2,3} ", README.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_command_is_in_the_table_and_no_other() -> None:
    rows = [line for line in section("Commands and settings").splitlines() if line.startswith("| `laguna ")]
    assert set(re.findall(r"laguna ([a-z]+)", " ".join(row.split("|")[1] for row in rows))) == main.commands.keys()


def test_every_slash_command_is_in_the_table_and_no_other() -> None:
    rows = [line.split(" | ")[0] for line in section("laguna chat").splitlines() if line.startswith("| `/")]
    assert set(re.findall(r"/([a-z]+)", " ".join(rows))) == COMMANDS.keys()


def test_every_agent_has_its_row_and_what_is_set_is_named_there() -> None:
    rows = dict(re.findall(r"^\| `([a-z]+)` \| (.*)$", section("laguna launch"), re.MULTILINE))
    assert rows.keys() == AGENTS.keys()
    for name, agent in AGENTS.items():
        setup = agent.setup(Endpoint("http://127.0.0.1:8000", "k", "m", 4096))
        set_ = [
            variable for variable in setup.environment if "DEFAULT" not in variable and variable != "ANTHROPIC_MODEL"
        ]
        assert [variable for variable in (*set_, *setup.unset) if variable not in rows[name]] == []


def setup(name: str) -> Setup:
    return AGENTS[name].setup(Endpoint("http://127.0.0.1:8000", "unused", "laguna-tiny", 4096))


def block(language: str, having: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", section("By hand"), re.DOTALL)
    return next(text for text in blocks if having in text)


def test_what_is_shown_for_agents_by_hand_is_what_is_set_for_them() -> None:
    assert json.loads(block("json", "opencode")) == json.loads(setup("opencode").environment["OPENCODE_CONFIG_CONTENT"])
    codex = tomllib.loads("\n".join(setup("codex").arguments[1::2]))
    assert tomllib.loads(block("toml", "laguna")) == codex
    for name in ("claude", "qwen", "aider", "pool"):
        shown, told = block("bash", f"\n{name}"), setup(name)
        exported = dict(re.findall(r"(\w+)=(\S+)", shown))
        wanted = {key: value for key, value in told.environment.items() if key in exported}
        assert exported == wanted
        assert [key for key in told.environment if key not in exported and "MODEL" not in key] == []
        assert shown.splitlines()[-1].split() == [name, *told.arguments]
        assert all(f"unset {key}" in shown for key in told.unset)


def test_what_the_doctor_is_shown_to_say_of_the_embedded_pair_is_what_it_says(tmp_path: Path) -> None:
    said = CliRunner().invoke(main, ["doctor"], env={"XDG_CONFIG_HOME": str(tmp_path)}).output.splitlines()
    own = re.compile(
        r"(?:ok|warn|fail) +(?:target|speculator|pair|weights|generation|tokenizer|ends|template|tools|dialect) "
    )
    fold = section("laguna doctor").partition("```\n")[2].partition("```")[0].splitlines()
    facts = [line for line in fold if own.match(line) and "…" not in line]
    assert len(facts) > 9
    assert [line for line in facts if line not in said] == []
