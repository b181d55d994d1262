// What every client asks for: a tool and its result, a typed answer, and two things that are refused.
import assert from "node:assert/strict";

export const base = process.argv[2];
export const model = "laguna-tiny";
export const hello = "Hello there.";
export const ask = "What is the weather in Oslo?";
export const long = "word ".repeat(8192);
export const result = '{"temperature": 7, "sky": "cloudy"}';
export const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
export const verdict = {
  type: "object",
  properties: { word: { enum: ["yes", "no", "perhaps"] }, score: { type: "integer", minimum: 0, maximum: 10 } },
  required: ["word", "score"],
  additionalProperties: false,
};

export function readsResult(text) {
  assert.match(text, /7/);
  assert.match(text, /cloudy/);
}

export function isVerdict(value) {
  assert.ok(["yes", "no", "perhaps"].includes(value.word));
  assert.ok(Number.isInteger(value.score) && value.score >= 0 && value.score <= 10);
}
