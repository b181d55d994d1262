import assert from "node:assert/strict";
import OpenAI from "openai";
import { ask, base, hello, isVerdict, long, model, parameters, readsResult, result, verdict } from "./ask.mjs";

const client = new OpenAI({ baseURL: base, apiKey: "none", maxRetries: 0 });
const cold = { model, temperature: 0, seed: 7 };
const tools = [{ type: "function", function: { name: "get_weather", parameters } }];

async function streams() {
  const messages = [{ role: "user", content: hello }];
  const whole = await client.chat.completions.create({ ...cold, messages });
  const stream = client.chat.completions.stream({ ...cold, messages, stream_options: { include_usage: true } });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0].message.content, whole.choices[0].message.content);
  assert.equal(final.choices[0].finish_reason, "stop");
  assert.equal(final.usage.total_tokens, whole.usage.total_tokens);
}

async function callsATool(streamed) {
  const messages = [{ role: "user", content: ask }];
  const body = { ...cold, messages, tools };
  const answer = streamed
    ? await client.chat.completions.stream(body).finalChatCompletion()
    : await client.chat.completions.create(body);
  const { message, finish_reason } = answer.choices[0];
  assert.equal(finish_reason, "tool_calls");
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: "Oslo" });
  const told = { role: "tool", tool_call_id: message.tool_calls[0].id, content: result };
  const second = await client.chat.completions.create({ ...body, messages: [...messages, message, told] });
  readsResult(second.choices[0].message.content);
}

async function answersByASchema() {
  const response_format = { type: "json_schema", json_schema: { name: "verdict", strict: true, schema: verdict } };
  const answer = await client.chat.completions.parse({
    ...cold,
    messages: [{ role: "user", content: hello }],
    response_format,
  });
  isVerdict(JSON.parse(answer.choices[0].message.content));
}

async function responds() {
  const stream = client.responses.stream({ model, input: ask, temperature: 0, tools: [
    { type: "function", name: "get_weather", parameters, strict: false },
  ] });
  const first = await stream.finalResponse();
  const call = first.output.find((item) => item.type === "function_call");
  assert.deepEqual(JSON.parse(call.arguments), { city: "Oslo" });
  const second = await client.responses.create({
    model,
    previous_response_id: first.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output: result }],
    temperature: 0,
  });
  readsResult(second.output_text);
}

async function raises(stream) {
  const create = (body) => client.chat.completions.create({ ...cold, stream, ...body });
  await assert.rejects(create({ messages: [{ role: "user", content: long }] }), (error) => {
    return error instanceof OpenAI.BadRequestError && error.code === "context_length_exceeded";
  });
  await assert.rejects(create({ messages: [{ role: "user", content: hello }], temperature: 3 }), (error) => {
    return error instanceof OpenAI.BadRequestError && error.param === "temperature";
  });
}

await streams();
await callsATool(false);
await callsATool(true);
await answersByASchema();
await responds();
await raises(false);
await raises(true);
