"""The README tells the truth about commands, slash commands and agents."""

import re

from server.chat.slash import COMMANDS
from server.cli import main
from server.launch.agents import AGENTS, Endpoint
from tests.runtime.readme import README


def section(title: str) -> str:
    """A section's text, up to the next one."""
    return re.split(r"^#{2,3} ", README.partition(f"# {title}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_command_is_in_the_table_and_no_other() -> None:
    rows = [line for line in section("Commands").splitlines() if line.startswith("| `laguna ")]
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
