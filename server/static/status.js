// The panel reads what Prometheus reads, and shows how it changes.

import { byId, el, headers, rounded, share, themed } from "./dom.js";
import { POINTS, lines } from "./plots.js";

const EVERY = 2000;
// What pages and probes ask for says nothing about the model's work.
const OWN = /^\/(static\/.*|status|health|ready|metrics)?$/;

// "name{label="value"} 1.5" lines to [name, labels, value].
export function* samples(text) {
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (match === null) continue;
    const labels = Object.fromEntries([...(match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));
    yield [match[1], labels, Number(match[3])];
  }
}

class Reading {
  constructor(at, text) {
    this.at = at;
    this.all = [...samples(text)];
  }

  of(name) {
    return this.all.filter(([own]) => own === `laguna_${name}`).reduce((sum, [, , value]) => sum + value, 0);
  }

  rows(name) {
    return this.all.filter(([own]) => own === `laguna_${name}`);
  }
}

const seconds = (value) => (value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(1)} s`);
const bytes = (value) => (value < 2 ** 30 ? `${(value / 2 ** 20).toFixed(1)} MiB` : `${(value / 2 ** 30).toFixed(2)} GiB`);
const mean = (now, name) => (now.of(`${name}_count`) ? now.of(`${name}_sum`) / now.of(`${name}_count`) : 0);
const between = (now, before, name) => (before ? Math.max(0, now.of(name) - before.of(name)) : 0);
// Of the requests that ended since, where there are any: the number tells of all, the plot of now.
const lately = (now, before, name) => {
  const count = between(now, before, `${name}_count`);
  return count ? between(now, before, `${name}_sum`) / count : mean(now, name);
};
const pace = (now, before, name) => (before ? between(now, before, name) / ((now.at - before.at) / 1000) : 0);

// Title, the number, what is said below it, and what is drawn.
const FIGURES = [
  ["Running", (now) => [String(now.of("requests_running")), `${now.of("requests_waiting")} waiting`, now.of("requests_running")]],
  ["Tokens a second", (now, before) => [rounded(pace(now, before, "completion_tokens_total")), `${now.of("completion_tokens_total")} in all, counted when a request ends`, pace(now, before, "completion_tokens_total")]],
  ["Drafts accepted", (now) => {
    const rounds = now.of("rounds_total");
    const each = rounds ? now.of("accepted_tokens_total") / rounds : 0;
    return [share(now.of("accepted_tokens_total"), now.of("drafted_tokens_total")), `${each.toFixed(1)} a round`, each];
  }],
  ["Prompts from cache", (now) => [share(now.of("cached_tokens_total"), now.of("prompt_tokens_total")), `${bytes(now.of("prefix_cache_bytes"))} held`, now.of("cached_tokens_total") / Math.max(1, now.of("prompt_tokens_total"))]],
  ["To the first token", (now, before) => [seconds(mean(now, "first_token_seconds")), "on average", lately(now, before, "first_token_seconds")]],
  ["From token to token", (now, before) => [seconds(mean(now, "token_seconds")), "on average", lately(now, before, "token_seconds")]],
].map(([title, read], index) => {
  const number = el("output", { "aria-labelledby": `figure-${index}` }, "–");
  const below = el("small", {});
  const plot = el("div", { class: "plot" });
  const node = el("div", { class: "figure" }, el("h3", { id: `figure-${index}` }, title), number, below, plot);
  return { title, read, number, below, plot, node, series: [] };
});

function show(now, before) {
  for (const figure of FIGURES) {
    const [value, below, point] = figure.read(now, before);
    figure.number.value = value;
    figure.below.textContent = below;
    figure.series = [...figure.series, point].slice(-POINTS);
    lines(figure.plot, `${figure.title}: ${value}`, figure.series);
  }
  const rows = now.rows("requests_total").filter(([, { route }]) => !OWN.test(route)).sort((a, b) => b[2] - a[2]);
  const none = el("tr", {}, el("td", { colspan: "4", class: "none" }, "None yet."));
  byId("requests").replaceChildren(
    ...(rows.length ? [] : [none]),
    ...rows.map(([, { route, status, outcome }, count]) =>
      el("tr", {}, el("td", {}, route), el("td", {}, status), el("td", {}, outcome), el("td", { class: "number" }, String(count))),
    ),
  );
}

async function health() {
  const now = await fetch("health").then((response) => response.json()).catch(() => null);
  const state = now?.status ?? "unreachable";
  byId("state").className = `dot ${{ ok: "ready", loading: "loading" }[state] ?? "dead"}`;
  const part = now?.loading ? `, ${Math.round(100 * now.loading.fraction)} %` : "";
  byId("model").textContent = { ok: "ready", loading: `loading${part}` }[state] ?? `${state}${now?.reason ? `: ${now.reason}` : ""}`;
}

let last = null;

async function look() {
  if (!document.hidden) {
    await health();
    const response = await fetch("metrics", { headers: headers() }).catch(() => null);
    const told = { 401: "The server asks for an API key: set it in the playground, in this tab.", 404: "This server has no metrics." };
    byId("told").textContent = response === null || response.ok ? "" : told[response.status] ?? `Metrics: status ${response.status}.`;
    if (response?.ok) {
      const now = new Reading(performance.now(), await response.text());
      show(now, last);
      last = now;
    }
  }
  setTimeout(look, EVERY);
}

byId("figures").append(...FIGURES.map((figure) => figure.node));
themed(byId("theme"));
look();
