// One chat completion, streamed: the request goes out, chunks come back, and a refusal is an error with its name.

import { headers } from "./dom.js";

export class Refused extends Error {
  constructor(status, told) {
    super(told?.message ?? `The server answered with status ${status}.`);
    this.status = status;
    this.param = told?.param ?? null;
    this.code = told?.code ?? null;
  }
}

export async function* chunks(body, signal) {
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json", ...headers() },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw new Refused(response.status, (await response.json().catch(() => null))?.error);
  let ended = false;
  for await (const data of datas(response.body)) {
    if (data === "[DONE]") {
      ended = true;
      break;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Refused(200, chunk.error);
    yield chunk;
  }
  if (!ended) throw new Refused(200, { message: "The connection broke before the answer was over." });
}

async function* datas(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        if (event.startsWith("data: ")) yield event.slice(6);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
