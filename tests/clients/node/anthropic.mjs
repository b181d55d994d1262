import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import { ask, base, hello, isVerdict, long, model, parameters, readsResult, result, verdict } from "./ask.mjs";

const client = new Anthropic({ baseURL: base.replace(/\/v1$/, ""), apiKey: "none", maxRetries: 0 });
const cold = { model, temperature: 0, max_tokens: 200, thinking: { type: "disabled" } };
const tools = [{ name: "get_weather", input_schema: parameters }];
const text = (message) => message.content.filter((block) => block.type === "text").map((block) => block.text).join("");

async function streams() {
  const messages = [{ role: "user", content: hello }];
  const whole = await client.messages.create({ ...cold, messages });
  const final = await client.messages.stream({ ...cold, messages }).finalMessage();
  assert.ok(text(whole));
  assert.equal(text(final), text(whole));
  assert.equal(final.stop_reason, "end_turn");
}

async function callsATool() {
  const messages = [{ role: "user", content: ask }];
  const first = await client.messages.stream({ ...cold, messages, tools }).finalMessage();
  assert.equal(first.stop_reason, "tool_use");
  const call = first.content.find((block) => block.type === "tool_use");
  assert.deepEqual(call.input, { city: "Oslo" });
  const told = { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: result }] };
  const spoken = { role: "assistant", content: first.content };
  readsResult(text(await client.messages.create({ ...cold, messages: [...messages, spoken, told], tools })));
}

async function answersByASchema() {
  const answer = await client.messages.create({
    ...cold,
    messages: [{ role: "user", content: hello }],
    output_config: { format: { type: "json_schema", schema: verdict } },
  });
  isVerdict(JSON.parse(text(answer)));
}

async function raises(stream) {
  const create = (body) => client.messages.create({ ...cold, stream, ...body });
  await assert.rejects(create({ messages: [{ role: "user", content: long }] }), (error) => {
    return error instanceof Anthropic.BadRequestError && /prompt is too long: \d+ tokens > \d+ maximum/.test(error.message);
  });
  await assert.rejects(create({ messages: [{ role: "user", content: hello }], temperature: 3 }), (error) => {
    return error instanceof Anthropic.BadRequestError && /temperature/.test(error.message);
  });
}

await streams();
await callsATool();
await answersByASchema();
await raises(false);
await raises(true);
