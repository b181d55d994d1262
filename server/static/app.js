// The playground: a conversation, the panel beside it, and the keys that drive both.

import { byId, el, headers, themed } from "./dom.js";
import { Meters } from "./meters.js";
import { Settings } from "./settings.js";
import { chunks } from "./stream.js";
import { Answer, question } from "./turns.js";

const EXAMPLES = [
  ["Calls a tool", "What is the weather in Oslo?", "tools"],
  ["Held to a schema", "How is the weather in Oslo?", "schema"],
  ["Plain text", "Who are you?", null],
];
const LOOK_EVERY = 2000;
const LOOK_SOON = 500;

const log = byId("log");
const ask = byId("ask");
const meters = new Meters();
const settings = new Settings(byId("settings"));
let messages = [];
let running = null;

async function answer() {
  // A new chat begins with an array of its own, and what still comes for this one stays with it.
  const own = messages;
  const fields = settings.fields();
  if (fields === null) return false;
  const view = new Answer();
  append(view.node);
  running = new AbortController();
  busy(true);
  meters.start();
  let reason = null;
  let figures = null;
  try {
    const system = settings.system ? [{ role: "system", content: settings.system }] : [];
    const body = { ...fields, messages: [...system, ...own], stream: true, stream_options: { include_usage: true }, laguna: { tokens: true } };
    for await (const chunk of chunks(body, running.signal)) {
      if (chunk.usage) figures = { usage: chunk.usage, laguna: chunk.laguna };
      for (const choice of chunk.choices) {
        follow(() => view.chunk(choice));
        meters.tokens(choice.laguna?.tokens ?? []);
        reason = choice.finish_reason ?? reason;
      }
    }
  } catch (error) {
    if (error.name === "AbortError") reason = "stopped";
    else failed(view, error);
  }
  meters.end(figures);
  if (reason !== null) over(view, reason, figures, own);
  running = null;
  busy(false);
  return reason !== null;
}

function over(view, reason, figures, own) {
  follow(() => view.finish(reason, figures));
  own.push(view.message);
  const copy = el("button", { type: "button", class: "quiet", click: () => navigator.clipboard?.writeText(view.said.content) }, "Copy");
  const again = el("button", { type: "button", class: "quiet again", click: () => retry(view) }, "Again");
  log.querySelectorAll(".again").forEach((old) => old.remove());
  view.foot.prepend(copy, again);
  if (!view.calls.length) return say("Answered.");
  const send = el("button", { type: "button", class: "solid answer-all" }, view.calls.length > 1 ? "Send the results" : "Send the result");
  send.addEventListener("click", () => results(view, send));
  view.foot.before(send);
  follow(() => view.calls[0].result.focus({ preventScroll: true }));
  say(`${view.calls.length} ${view.calls.length > 1 ? "calls wait for their results" : "call waits for its result"}.`);
}

function failed(view, error) {
  follow(() => view.fail(error));
  say("Not answered.");
  if (error.status === 401) {
    byId("key-part").open = true;
    panel(true);
    byId("key").focus();
  }
}

function results(view, send) {
  if (running) return;
  send.remove();
  view.foot.querySelector(".again")?.remove();
  messages.push(...view.calls.map((call) => call.answered()));
  answer();
}

function retry(view) {
  if (running) return;
  messages.splice(messages.lastIndexOf(messages.findLast((message) => message.role === "assistant")));
  view.node.remove();
  answer();
}

async function send(text) {
  if (running || !text.trim()) return;
  const own = messages;
  const before = own.length;
  const asked = question(text);
  append(asked);
  own.push({ role: "user", content: text });
  ask.value = "";
  grow();
  if (await answer()) return;
  // A question without an answer is no part of the conversation; it goes back to where it can be mended.
  own.length = before;
  if (own !== messages) return;
  if (!ask.value) ask.value = text;
  grow();
}

function append(node) {
  byId("empty").hidden = true;
  log.append(node);
  log.scrollTop = log.scrollHeight;
}

// Stay at the end while the reader is there.
function follow(change) {
  const there = log.scrollHeight - log.scrollTop - log.clientHeight < 80;
  change();
  if (there) log.scrollTop = log.scrollHeight;
}

function busy(is) {
  byId("send").hidden = is;
  byId("stop").hidden = !is;
  log.setAttribute("aria-busy", is ? "true" : "false");
  if (is) say("Answering.");
}

const say = (text) => void (byId("said").textContent = text);

function grow() {
  follow(() => {
    ask.style.height = "auto";
    ask.style.height = `${ask.scrollHeight + 2}px`;
  });
}

function fresh() {
  running?.abort();
  messages = [];
  log.querySelectorAll(".turn").forEach((turn) => turn.remove());
  byId("empty").hidden = false;
  meters.clear();
  ask.focus();
}

function panel(open) {
  byId("panel").classList.toggle("open", open);
  byId("open-panel").setAttribute("aria-expanded", open ? "true" : "false");
}

function example([, text, part]) {
  for (const name of ["tools", "schema"]) {
    if (name === part) settings.example(name);
    else settings.clear(name);
    byId(`${name}-part`).open = name === part;
  }
  send(text);
}

function keys(event) {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "Escape" && running) running.abort();
  else if (event.key === "Escape" && byId("panel").classList.contains("open")) panel(false), byId("open-panel").focus();
  else if (event.key === "/" && !typing) event.preventDefault(), ask.focus();
}

async function look() {
  if (!document.hidden) {
    const { state } = await meters.look();
    if (state !== "ok") byId("model").textContent = state;
    else if (byId("model").dataset.known !== "yes") await named();
  }
  setTimeout(look, running ? LOOK_SOON : LOOK_EVERY);
}

async function named() {
  const list = await fetch("v1/models", { headers: headers() }).then((response) => response.json()).catch(() => null);
  byId("model").textContent = list?.data?.[0]?.id ?? (list?.error ? "ready; needs an API key" : "ready");
  if (list?.data) byId("model").dataset.known = "yes";
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send(ask.value);
});
ask.addEventListener("input", grow);
ask.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send(ask.value);
});
byId("stop").addEventListener("click", () => running?.abort());
byId("new").addEventListener("click", fresh);
byId("tint").addEventListener("change", (event) => log.classList.toggle("tinted", event.target.checked));
byId("open-panel").addEventListener("click", () => (panel(true), byId("close-panel").focus()));
byId("close-panel").addEventListener("click", () => (panel(false), byId("open-panel").focus()));
byId("panel").addEventListener("wanted", () => panel(true));
document.addEventListener("keydown", keys);
byId("examples").append(
  ...EXAMPLES.map((each) => el("button", { type: "button", click: () => example(each) }, el("small", {}, each[0]), each[1])),
);
log.classList.add("tinted");
themed(byId("theme"));
look();
