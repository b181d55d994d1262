// The figures beside the chat: what this page's answers told, and how busy the server is.

import { byId, headers, rounded, share, written } from "./dom.js";
import { POINTS, bars, lines, parts } from "./plots.js";

const WRITERS = ["speculator", "prediction", "copy", "grammar", "target"];
const TICK = 200;
const WINDOW = 1000;

const added = (sums, counts) => Array.from({ length: Math.max(sums.length, counts.length) }, (_, i) => (sums[i] ?? 0) + (counts[i] ?? 0));

export class Meters {
  constructor() {
    this.clear();
    this.running = [];
    this.waiting = [];
  }

  clear() {
    this.rates = [];
    this.drafted = [];
    this.accepted = [];
    this.writers = Object.fromEntries(WRITERS.map((name) => [name, 0]));
    this.cached = this.read = 0;
    for (const name of ["rate", "depth", "writer", "cache"]) byId(name).value = "–";
    this.drawDepth(this.drafted, this.accepted);
    this.drawWriters();
    this.drawCache();
    lines(byId("rate-plot"), "No tokens yet", []);
  }

  // An answer begins: what it brings is counted until it is over.
  start() {
    this.came = [];
    this.runs = [0];
    this.rates.push(0);
    this.timer = setInterval(() => this.tick(), TICK);
  }

  tokens(tokens) {
    if (!tokens.length) return;
    this.came.push([performance.now(), tokens.length]);
    for (const [, writer] of tokens) {
      this.writers[writer] = (this.writers[writer] ?? 0) + 1;
      // A block ends with a token of the target's: what stands before it was accepted.
      if (writer === "target") this.runs.push(0);
      else this.runs[this.runs.length - 1] += 1;
    }
  }

  tick() {
    const now = performance.now();
    this.came = this.came.filter(([at]) => now - at < WINDOW);
    const rate = this.came.reduce((sum, [, count]) => sum + count, 0) / (WINDOW / 1000);
    this.rates = [...this.rates, rate].slice(-POINTS);
    byId("rate").value = rounded(rate);
    lines(byId("rate-plot"), `Tokens a second, now ${rounded(rate)}`, this.rates);
    this.drawWriters();
    const blocks = this.runs.filter((run) => run > 0);
    const deepest = Math.max(0, ...blocks);
    const reached = Array.from({ length: deepest }, (_, depth) => blocks.filter((run) => run > depth).length);
    this.drawDepth(added(this.drafted, [blocks.length]), added(this.accepted, reached));
  }

  // The answer is over, with what the server counted, or cut without.
  end(figures) {
    clearInterval(this.timer);
    // An answer may be shorter than one tick.
    this.tick();
    if (!figures) return;
    const { usage, laguna } = figures;
    this.drafted = added(this.drafted, laguna.drafted_by_depth);
    this.accepted = added(this.accepted, laguna.accepted_by_depth);
    this.cached += usage.prompt_tokens_details.cached_tokens;
    this.read += usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens;
    if (laguna.decode_seconds > 0) byId("rate").value = rounded(written(usage) / laguna.decode_seconds);
    this.drawDepth(this.drafted, this.accepted);
    this.drawCache();
  }

  drawDepth(drafted, accepted) {
    const blocks = drafted[0] ?? 0;
    const mean = blocks ? accepted.reduce((sum, count) => sum + count, 0) / blocks : 0;
    byId("depth").value = blocks ? `${mean.toFixed(1)} a block` : "–";
    const label = blocks ? `Share of blocks accepted up to each depth; ${mean.toFixed(1)} tokens a block` : "No drafts yet";
    bars(byId("depth-plot"), label, accepted.map((count) => (blocks ? count / blocks : 0)));
  }

  drawWriters() {
    const all = Object.values(this.writers).reduce((sum, count) => sum + count, 0);
    const drafts = all - this.writers.target;
    byId("writer").value = all ? `${share(drafts, all)} drafted` : "–";
    const label = all ? WRITERS.map((name) => `${name} ${this.writers[name]}`).join(", ") : "No tokens yet";
    parts(byId("writer-plot"), label, Object.entries(this.writers));
  }

  drawCache() {
    const all = this.cached + this.read;
    byId("cache").value = share(this.cached, all);
    parts(byId("cache-plot"), `${this.cached} of ${all} prompt tokens from the cache`, [["done", this.cached], ["rest", this.read]]);
  }

  // How the server is: the state that the bar shows, and the queue's plot.
  async look() {
    const health = await fetch("health", { headers: headers() }).then((response) => response.json()).catch(() => null);
    const state = health === null ? "unreachable" : health.status;
    byId("state").className = `dot ${{ ok: "ready", loading: "loading" }[state] ?? "dead"}`;
    this.running = [...this.running, health?.running ?? 0].slice(-POINTS);
    this.waiting = [...this.waiting, health?.waiting ?? 0].slice(-POINTS);
    byId("queue").value = health === null ? "–" : `${health.running} and ${health.waiting}`;
    lines(byId("queue-plot"), `${health?.running ?? 0} running, ${health?.waiting ?? 0} waiting`, this.running, this.waiting);
    return { state, health };
  }
}
