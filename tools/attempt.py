"""What may become a call: its raw text until it is one, and what each act of the dialect's table does to it."""

from collections.abc import Callable, Mapping

from tools.calls import Draft, Names
from tools.dialect import Act
from tools.schema import Tool


class Attempt:
    """A possible call, or, inside thinking (`trial`), a possible row of calls. Acts return False to refuse a token.

    `raw` is all the text read since the first `<tool_call>`: what is shown if this was no call after all.
    """

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self.raw: list[str] = []
        self.trial = False
        self.done: list[Draft] = []
        self._nameless = self.draft = Draft("", None)
        self._tools = tools
        self._names = Names(tools)
        self._name = ""
        self._gap: list[str] = []
        self._held: list[str] = []

    @property
    def acts(self) -> Mapping[Act, Callable[[str], bool]]:
        """The acts of the table that concern calls."""
        return {
            Act.OPEN: self._open,
            Act.TRY: self._try,
            Act.RETRY: self._retry,
            Act.KEEP: self._keep,
            Act.NAME: self._write_name,
            Act.NAME_AGAIN: self._name_again,
            Act.NAMED: self._named,
            Act.NAMED_ALONE: self._named_alone,
            Act.NAME_SPLIT: self._name_split,
            Act.KEY: self._write_key,
            Act.KEY_AGAIN: self._key_again,
            Act.KEY_END: self._key_end,
            Act.GAP: self._write_gap,
            Act.VALUE: self._value,
            Act.BARE: self._bare,
            Act.WRITE: self._write,
            Act.WRITE_UNLESS_THINKING: self._write_unless_thinking,
            Act.HOLD: self._hold,
            Act.HOLD_AGAIN: self._hold_again,
            Act.RESUME: self._resume,
            Act.RESUME_UNLESS_THINKING: self._resume_unless_thinking,
            Act.NEXT_KEY: self._next_key,
            Act.CALL_END: self._call_end,
            Act.TURN_END: self._turn_end,
        }

    def _open(self, _: str) -> bool:
        self.trial = False
        return self._anew()

    def _try(self, _: str) -> bool:
        self.trial = True
        return self._anew()

    def _anew(self) -> bool:
        self.raw.clear()
        self.done.clear()
        self._held.clear()
        return self._retry("")

    def _retry(self, _: str) -> bool:
        self._name = ""
        self.draft = self._nameless
        return True

    def _keep(self, _: str) -> bool:
        return True

    def _write_name(self, text: str) -> bool:
        self._name = self._name + text if self._name else text.lstrip()
        return self._names.viable(self._name)

    def _name_again(self, _: str) -> bool:
        return not self._name

    def _named(self, _: str) -> bool:
        name = self._names.whole(self._name)
        return name is not None and self._begin(name)

    def _named_alone(self, text: str) -> bool:
        return self._named(text) and self._end()

    def _name_split(self, _: str) -> bool:
        found = self._names.split(self._name)
        if found is None:
            return False
        name, key = found
        return self._begin(name) and self.draft.write_key(key) and self._key_end("")

    def _begin(self, name: str) -> bool:
        self.draft = Draft(name, self._tools.get(name))
        return self.draft.declared or not self.trial

    def _write_key(self, text: str) -> bool:
        return self.draft.write_key(text)

    def _key_again(self, _: str) -> bool:
        return self.draft.key_blank

    def _key_end(self, _: str) -> bool:
        self._gap.clear()
        return self.draft.end_key()

    def _write_gap(self, text: str) -> bool:
        self._gap.append(text)
        return True

    def _value(self, _: str) -> bool:
        self.draft.begin_value(streams=True)
        return True

    def _bare(self, text: str) -> bool:
        if not self.draft.declared:
            return False
        self.draft.begin_value(streams=False)
        # The newline is the one that the spelling with newlines puts before `<arg_value>`.
        return self._write("".join([*self._gap, text]).removeprefix("\n"))

    def _write(self, text: str) -> bool:
        self.draft.write(text)
        return True

    def _write_unless_thinking(self, text: str) -> bool:
        return not self.trial and self._write(text)

    def _hold(self, text: str) -> bool:
        self._held.append(text)
        return True

    def _hold_again(self, text: str) -> bool:
        return self._resume("") and self._hold(text)

    def _resume(self, text: str) -> bool:
        held = "".join([*self._held, text])
        self._held.clear()
        return self._write(held)

    def _resume_unless_thinking(self, text: str) -> bool:
        return not self.trial and self._resume(text)

    def _next_key(self, _: str) -> bool:
        self._held.clear()
        self.draft.end_value()
        return True

    def _call_end(self, _: str) -> bool:
        return self._next_key("") and self._end()

    def _turn_end(self, _: str) -> bool:
        return not self.trial and self.draft.declared and self._next_key("") and self.draft.satisfied and self._end()

    def _end(self) -> bool:
        self.draft.end()
        if self.trial:
            self.done.append(self.draft)
        return True
