// What the panel says, as fields of a request. JSON that cannot be read is shown where it stands, and nothing is sent.

import { byId, key, store, stored } from "./dom.js";

const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "seed", "max_tokens"];

const TOOLS = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather in a city, now.",
      parameters: {
        type: "object",
        properties: { city: { type: "string" }, unit: { type: "string", enum: ["celsius", "fahrenheit"] } },
        required: ["city"],
      },
    },
  },
];

const SCHEMA = {
  type: "object",
  properties: { city: { enum: ["Rome", "Oslo", "Paris"] }, sky: { enum: ["clear", "cloudy", "rainy"] } },
  required: ["city", "sky"],
};

const EXAMPLES = { tools: TOOLS, schema: SCHEMA };

export class Settings {
  constructor(form) {
    this.form = form;
    this.fill(stored("settings", {}));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.changed());
    byId("key").value = key.get();
    byId("key").addEventListener("input", (event) => key.set(event.target.value.trim()));
    for (const name of ["tools", "schema"]) {
      byId(`${name}-example`).addEventListener("click", () => this.put(name, EXAMPLES[name]));
      form.querySelector(`[data-format="${name}"]`).addEventListener("click", () => {
        const value = this.json(name);
        if (value !== null && value !== undefined) this.put(name, value);
      });
    }
    this.changed();
  }

  fill(values) {
    for (const [name, value] of Object.entries(values)) {
      const field = this.form.elements.namedItem(name);
      if (field && typeof value === "string") field.value = value;
    }
  }

  put(name, value) {
    this.form.elements.namedItem(name).value = JSON.stringify(value, null, 2);
    this.changed();
  }

  example(name) {
    this.put(name, EXAMPLES[name]);
  }

  clear(name) {
    this.form.elements.namedItem(name).value = "";
    this.changed();
  }

  changed() {
    store("settings", Object.fromEntries(new FormData(this.form)));
    const tools = this.json("tools");
    byId("tools-count").textContent = Array.isArray(tools) && tools.length ? `${tools.length} declared` : "";
    byId("schema-count").textContent = this.json("schema") ? "in force" : "";
  }

  // The value of a JSON field; null where it is empty, undefined where it cannot be read.
  json(name) {
    const field = this.form.elements.namedItem(name);
    const text = field.value.trim();
    let value = null;
    let fault = "";
    try {
      value = text ? JSON.parse(text) : null;
      fault = text ? wrong(name, value) : "";
    } catch (error) {
      fault = error.message;
    }
    byId(`${name}-fault`).textContent = fault;
    field.setAttribute("aria-invalid", fault ? "true" : "false");
    return fault ? undefined : value;
  }

  // Fields of a request, or null after showing what keeps it from being sent.
  fields() {
    const asked = {};
    for (const name of NUMBERS) {
      const field = this.form.elements.namedItem(name);
      if (field.value === "" && !field.validity.badInput) continue;
      if (!field.checkValidity()) return this.show(field);
      asked[name] = Number(field.value);
    }
    const said = (name) => this.form.elements.namedItem(name).value;
    if (said("thinking")) asked.chat_template_kwargs = { enable_thinking: said("thinking") === "on" };
    if (said("speculation")) asked.speculation = said("speculation");
    if (said("prediction").trim()) asked.prediction = { type: "content", content: said("prediction") };
    const tools = this.json("tools");
    if (tools === undefined) return this.show(byId("tools"));
    if (tools?.length) Object.assign(asked, { tools, tool_choice: said("tool_choice") });
    const schema = this.json("schema");
    if (schema === undefined) return this.show(byId("schema"));
    if (schema) asked.response_format = { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
    return asked;
  }

  get system() {
    return byId("system").value.trim();
  }

  show(field) {
    field.closest("details").open = true;
    byId("panel").dispatchEvent(new Event("wanted"));
    field.reportValidity();
    field.focus();
    return null;
  }
}

function wrong(name, value) {
  if (name === "schema") return value && typeof value === "object" && !Array.isArray(value) ? "" : "A schema is an object.";
  if (!Array.isArray(value)) return "Tools are an array.";
  const place = value.findIndex((tool) => tool?.type !== "function" || typeof tool?.function?.name !== "string");
  return place < 0 ? "" : `Tool ${place + 1} needs "type": "function" and a "function" with a "name".`;
}
