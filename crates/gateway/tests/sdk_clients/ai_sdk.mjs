// The AI SDK, with the providers for OpenAI (both APIs) and Anthropic.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { generateText, jsonSchema, Output, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

globalThis.AI_SDK_LOG_WARNINGS = false;

const openai = createOpenAI({ baseURL: `${GATEWAY}/v1`, apiKey: "any" });
const anthropic = createAnthropic({ baseURL: `${GATEWAY}/v1`, apiKey: "any" });
const MODELS = {
  "Chat Completions": openai.chat(MODEL),
  Responses: openai.responses(MODEL),
  Messages: anthropic(MODEL),
};

async function whole(request) {
  const { text, steps, totalUsage, finishReason, response } = await generateText(request);
  return { text, steps, usage: totalUsage, finishReason, messages: response.messages };
}

async function streamed(request) {
  let failure;
  const result = streamText({ ...request, onError: ({ error }) => (failure = error) });
  for await (const part of result.fullStream) if (part.type === "error") failure ??= part.error;
  if (failure) throw failure;
  const { messages } = await result.response;
  return {
    text: await result.text,
    steps: await result.steps,
    usage: await result.totalUsage,
    finishReason: await result.finishReason,
    messages,
  };
}

/** Runs a check with all APIs, whole and streamed. */
const every = (check) => async () => {
  for (const [name, model] of Object.entries(MODELS)) {
    for (const mode of [whole, streamed]) {
      const called = [];
      const define = (name, schema) =>
        tool({
          description: "A tool",
          inputSchema: jsonSchema(schema),
          execute: () => (called.push(name), RESULTS[name]),
        });
      const tools = { get_weather: define("get_weather", WEATHER), get_time: define("get_time", NOTHING) };
      const ask = (messages) => mode({ model, messages, tools, stopWhen: stepCountIs(5), maxRetries: 0 });
      try {
        await check(ask, called);
      } catch (error) {
        error.stack = `with ${name}, ${mode.name}\n${error.stack}`;
        throw error;
      }
    }
  }
};

const user = (text) => ({ role: "user", content: text });
/** Removes the space between rounds, which the APIs show in different ways. */
const joined = (text) => text.split("\n\n").join("");

await run({
  text: every(async (ask) => {
    const { text, usage, finishReason, messages } = await ask([user("say Grüße aus dem Tal")]);
    assert.equal(text, "Grüße aus dem Tal");
    assert.deepEqual([usage.inputTokens, usage.outputTokens, finishReason], [10, 5, "stop"]);
    assert.equal((await ask([user("say a"), ...messages, user("say b")])).text, "b");
  }),

  toolsOfServers: every(async (ask, called) => {
    const { text, usage } = await ask([user("rounds")]);
    assert.equal(joined(text), ROUNDS.join(""));
    assert.deepEqual([usage.inputTokens, usage.outputTokens, called.length], [30, 15, 0]);
    assert.equal((await ask([user("parallel")])).text, PARALLEL);
  }),

  toolsOfClient: every(async (ask, called) => {
    const { text, steps } = await ask([user("clients")]);
    assert.equal(text, "Results: sunny | noon.");
    assert.deepEqual([steps.length, called], [2, ["get_weather", "get_time"]]);
  }),

  toolsOfBoth: every(async (ask, called) => {
    for (const scenario of ["mixed", "late"]) {
      called.length = 0;
      const { text, messages } = await ask([user(scenario)]);
      contains(text, "value of a", "value of b", "sunny");
      assert.deepEqual(called, ["get_weather"]);
      const next = await ask([user(scenario), ...messages, user("ours")]);
      assert.equal(next.text, "Results: value of a.");
    }
  }),

  async structuredOutput() {
    const output = Output.object({ schema: z.object({ city: z.string(), degrees: z.number() }) });
    for (const model of Object.values(MODELS)) {
      for (const question of ["json", "rounds-json"]) {
        // For models that it does not know, the provider would send a tool instead of the schema.
        const providerOptions = { anthropic: { structuredOutputMode: "outputFormat" } };
        const request = { model, prompt: question, output, providerOptions, maxRetries: 0 };
        assert.deepEqual((await generateText(request)).output, PARIS);
        assert.deepEqual(await streamText(request).output, PARIS);
      }
    }
  },

  async hostedServer() {
    const mcp = openai.tools.mcp({ serverLabel: "demo", serverUrl: "toolwire://demo", requireApproval: "never" });
    for (const mode of [whole, streamed]) {
      const model = MODELS.Responses;
      const { text, messages } = await mode({ model, messages: [user("parallel")], tools: { mcp }, maxRetries: 0 });
      assert.equal(text, PARALLEL);
      const next = [user("parallel"), ...messages, user("say next")];
      assert.equal((await mode({ model, messages: next, tools: { mcp }, maxRetries: 0 })).text, "next");
    }
  },

  endings: every(async (ask) => {
    assert.equal((await ask([user("length")])).finishReason, "length");
    assert.equal((await ask([user("refusal")])).finishReason, "content-filter");
    assert.equal((await ask([user("thinking")])).text, "Done.");
  }),

  errors: every(async (ask) => {
    await assert.rejects(ask([user("status 429")]), /the provider says no/);
    await assert.rejects(ask([user("broken")]));
  }),
});
