// What stands in the conversation: a question, an answer as it comes, its calls, and what went wrong.

import { el, rounded, share, written } from "./dom.js";

const WRITERS = { speculator: "the speculator", prediction: "your prediction", copy: "copied from the context", grammar: "forced by the grammar", target: "the target’s own" };

const spans = (tokens) => tokens.map(([text, writer]) => el("span", { class: `t ${writer}`, title: WRITERS[writer] ?? writer }, text));

// The same tokens without the blanks that they begin with.
function withoutLeadingBlanks(tokens) {
  let blank = true;
  return tokens.map(([text, writer]) => {
    const shown = blank ? text.trimStart() : text;
    blank = blank && !shown;
    return [shown, writer];
  });
}

export const question = (text) => el("article", { class: "turn user", "aria-label": "You" }, el("p", {}, text));

export class Answer {
  constructor() {
    this.text = el("div", { class: "text" });
    this.calls = [];
    this.node = el("article", { class: "turn waiting", "aria-label": "Laguna" }, this.text);
    this.thoughts = null;
    this.said = { reasoning: "", content: "" };
  }

  chunk({ delta, laguna }) {
    const tokens = laguna?.tokens ?? [];
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (reasoning) this.think(reasoning, tokens);
    else if (delta.content) this.say(delta.content, tokens);
    else if (delta.tool_calls) delta.tool_calls.forEach((part) => this.called(part));
    else if (tokens.length) this.calls.at(-1)?.complete(tokens);
    if (reasoning || delta.content || delta.tool_calls) this.node.classList.remove("waiting");
  }

  think(text, tokens) {
    if (this.thoughts === null) {
      this.thoughts = el("div", { class: "text" });
      this.summary = el("summary", {}, "Thinking…");
      this.folded = el("details", { class: "thoughts" }, this.summary, this.thoughts);
      this.node.prepend(this.folded);
    }
    this.said.reasoning += text;
    this.thoughts.append(...(tokens.length ? spans(tokens) : [text]));
  }

  say(text, tokens) {
    // Line breaks between thoughts and answer are part of it, and not shown.
    const begun = this.said.content.trim() !== "";
    this.said.content += text;
    this.thought();
    this.text.append(...(tokens.length ? spans(begun ? tokens : withoutLeadingBlanks(tokens)) : [text]));
  }

  thought() {
    if (this.summary) this.summary.textContent = `Thought, ${this.said.reasoning.trim().split(/\s+/).length} words`;
  }

  called({ index, id, function: { name, arguments: fragment } }) {
    if (name) {
      this.thought();
      this.calls[index] = new Call(id, name);
      this.node.append(this.calls[index].node);
    }
    this.calls[index]?.add(fragment ?? "");
  }

  // The answer is over; calls that were cut are none, and their raw text was shown as content.
  finish(reason, figures) {
    this.node.classList.remove("waiting");
    this.thought();
    for (const call of this.calls) if (!call.whole) call.node.remove();
    this.calls = reason === "tool_calls" ? this.calls.filter((call) => call.whole) : [];
    this.foot = el("footer", { class: "foot" }, ...[...told(reason, figures)].map((text) => el("span", {}, text)));
    this.node.append(this.foot);
  }

  fail(error) {
    this.node.classList.remove("waiting");
    const where = error.param ? ` (${error.param})` : "";
    this.node.append(el("p", { class: "refused", role: "alert" }, el("strong", {}, "Not answered. "), `${error.message}${where}`));
  }

  // As the history is sent back: with its reasoning, since the model stops thinking without it.
  get message() {
    const message = { role: "assistant", content: this.said.content };
    if (this.said.reasoning) message.reasoning_content = this.said.reasoning;
    if (this.calls.length) message.tool_calls = this.calls.map((call) => call.wire);
    return message;
  }
}

class Call {
  constructor(id, name) {
    Object.assign(this, { id, name, json: "", whole: false });
    this.shown = el("pre", {});
    this.state = el("span", {}, "being written…");
    this.node = el("section", { class: "call", "aria-label": `Call of ${name}` }, el("header", {}, el("h3", {}, name), this.state), this.shown);
  }

  add(fragment) {
    this.json += fragment;
    this.shown.textContent = this.json;
  }

  complete(tokens) {
    this.whole = true;
    this.state.textContent = "waits for its result";
    this.shown.textContent = pretty(this.json);
    this.node.append(el("details", {}, el("summary", {}, "As it was written"), el("pre", {}, ...spans(tokens))));
    this.result = el("textarea", { rows: 3, spellcheck: "false", placeholder: 'JSON or text, such as {"temperature": 7}' });
    this.node.append(el("label", { class: "answer" }, `What ${this.name} gives back`, this.result));
  }

  answered() {
    this.state.textContent = "answered";
    this.result.readOnly = true;
    return { role: "tool", tool_call_id: this.id, content: this.result.value };
  }

  get wire() {
    return { id: this.id, type: "function", function: { name: this.name, arguments: this.json } };
  }
}

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

function* told(reason, figures) {
  const ends = { length: "token limit reached", stopped: "stopped" };
  if (figures) {
    const { usage, laguna } = figures;
    yield `${written(usage)} tokens`;
    if (laguna.decode_seconds > 0) yield `${rounded(written(usage) / laguna.decode_seconds)} a second`;
    yield laguna.drafted ? `${share(laguna.accepted, written(usage))} from drafts, in ${laguna.rounds} rounds` : laguna.speculation_off ?? "no drafts";
    yield `${usage.prompt_tokens_details.cached_tokens} of ${usage.prompt_tokens} prompt tokens cached`;
  }
  if (reason in ends) yield ends[reason];
}
