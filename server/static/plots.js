// Small plots, drawn as SVG: a line over time, bars by depth, and one bar in parts.

import { svg } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 60;

// How many values a line shows.
export const POINTS = 60;

const frame = (label, ...children) =>
  svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, ...children);

const baseline = () => svg("line", { class: "base", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT });

// Each series is drawn over the one before it, on one scale that begins at 0; the newest value stands at the right.
export function lines(place, label, ...series) {
  const highest = Math.max(1e-9, ...series.flat());
  const shapes = series.flatMap((values, index) => {
    if (values.length < 2 || !values.some((value) => value > 0)) return [];
    const step = WIDTH / (POINTS - 1);
    const from = WIDTH - step * (values.length - 1);
    const points = values.map((value, i) => `${(from + i * step).toFixed(1)},${(HEIGHT - (value / highest) * (HEIGHT - 4)).toFixed(1)}`);
    const name = index ? " second" : "";
    return [
      svg("path", { class: `area${name}`, d: `M${from.toFixed(1)},${HEIGHT}L${points.join("L")}L${WIDTH},${HEIGHT}Z` }),
      svg("path", { class: `line${name}`, d: `M${points.join("L")}` }),
    ];
  });
  place.replaceChildren(frame(label, baseline(), ...shapes));
}

// Shares from 0 to 1, at least so many places wide that two plots of one width can be compared.
export function bars(place, label, shares, places = 15) {
  const count = Math.max(places, shares.length);
  const step = WIDTH / count;
  const drawn = Array.from({ length: count }, (_, i) => {
    const height = Math.max(1.5, (shares[i] ?? 0) * HEIGHT);
    const name = i < shares.length ? "done" : "rest";
    return svg("rect", { class: name, x: i * step + 1, width: step - 2, y: HEIGHT - height, height });
  });
  place.replaceChildren(frame(label, ...drawn));
}

// Parts of one whole, in order: [class, amount].
export function parts(place, label, amounts) {
  const whole = amounts.reduce((sum, [, amount]) => sum + amount, 0);
  let at = 0;
  const drawn = amounts.map(([name, amount]) => {
    const width = whole ? (amount / whole) * WIDTH : 0;
    at += width;
    return svg("rect", { class: name, x: at - width, width, y: 0, height: HEIGHT });
  });
  const empty = svg("rect", { class: "rest", x: 0, width: WIDTH, y: 0, height: HEIGHT });
  place.replaceChildren(frame(label, ...(whole ? drawn : [empty])));
}
