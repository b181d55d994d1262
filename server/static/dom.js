// Elements from plain values: text is always text, never markup.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const ICONS = {
  auto: "M10 3a7 7 0 1 0 0 14zM10 3a7 7 0 0 1 0 14",
  light: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 1.8v1.7m0 13v1.7M1.8 10h1.7m13 0h1.7M4.2 4.2l1.2 1.2m9.2 9.2 1.2 1.2m0-11.6-1.2 1.2m-9.2 9.2-1.2 1.2",
  dark: "M16.8 12.2A7 7 0 0 1 7.8 3.2a7 7 0 1 0 9 9z",
};
const NEXT = { auto: "light", light: "dark", dark: "auto" };
const NAMES = { auto: "as the system", light: "light", dark: "dark" };

// The button goes round: as the system has it, light, dark.
export function themed(button) {
  const show = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.replaceChildren(svg("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: ICONS[theme] })));
    button.setAttribute("aria-label", `Colours: ${NAMES[theme]}. Change`);
  };
  let theme = stored("theme", "auto");
  if (!(theme in NEXT)) theme = "auto";
  show(theme);
  button.addEventListener("click", () => {
    theme = NEXT[theme];
    store("theme", theme);
    show(theme);
  });
}

// What a browser keeps; one that keeps nothing, such as a private window, is no fault.
export function stored(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(`laguna.${name}`)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function store(name, value) {
  try {
    localStorage.setItem(`laguna.${name}`, JSON.stringify(value));
  } catch {
    // Full or forbidden: the page works without.
  }
}

export const key = {
  get: () => {
    try {
      return sessionStorage.getItem("laguna.key") ?? "";
    } catch {
      return "";
    }
  },
  set: (value) => {
    try {
      sessionStorage.setItem("laguna.key", value);
    } catch {
      // As above.
    }
  },
};

export const headers = () => (key.get() ? { authorization: `Bearer ${key.get()}` } : {});

export const share = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "–");

// Of a completion's tokens, those that were written: a prediction's that did not come are counted in them.
export const written = (usage) => usage.completion_tokens - usage.completion_tokens_details.rejected_prediction_tokens;

export const rounded = (value) => value.toFixed(value === 0 || value >= 100 ? 0 : 1);
