import assert from "node:assert/strict";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { ask, base, hello, isVerdict, long, model as name, parameters, readsResult, result, verdict } from "./ask.mjs";

const provider = createOpenAICompatible({
  name: "laguna",
  baseURL: base,
  apiKey: "none",
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const cold = { model: provider(name), temperature: 0, maxOutputTokens: 200, maxRetries: 0 };
const tools = { get_weather: tool({ inputSchema: jsonSchema(parameters), execute: async ({ city }) => {
  assert.equal(city, "Oslo");
  return JSON.parse(result);
} }) };

async function streams() {
  const whole = await generateText({ ...cold, prompt: hello });
  const stream = streamText({ ...cold, prompt: hello });
  assert.ok(whole.text);
  assert.equal(await stream.text, whole.text);
  assert.equal(await stream.finishReason, "stop");
  assert.ok((await stream.usage).outputTokens > 0);
}

async function callsATool() {
  const both = { ...cold, prompt: ask, tools, stopWhen: stepCountIs(3) };
  readsResult((await generateText(both)).text);
  readsResult(await streamText(both).text);
}

async function answersByASchema() {
  const answer = await generateText({ ...cold, prompt: hello, output: Output.object({ schema: jsonSchema(verdict) }) });
  isVerdict(answer.output);
}

async function raises() {
  await assert.rejects(generateText({ ...cold, prompt: long }), (error) => {
    return APICallError.isInstance(error) && error.statusCode === 400 && /maximum context length/.test(error.message);
  });
  await assert.rejects(generateText({ ...cold, prompt: hello, temperature: 3 }), (error) => {
    return APICallError.isInstance(error) && /temperature/.test(error.message);
  });
  const told = [];
  const stream = streamText({ ...cold, prompt: long, onError: ({ error }) => told.push(error) });
  await stream.consumeStream();
  assert.ok(APICallError.isInstance(told[0]));
}

await streams();
await callsATool();
await answersByASchema();
await raises();
