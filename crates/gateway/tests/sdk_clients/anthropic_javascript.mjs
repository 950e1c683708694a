// The SDK of Anthropic for JavaScript.

import Anthropic from "@anthropic-ai/sdk";

const client = new Anthropic({ baseURL: GATEWAY, apiKey: "any", maxRetries: 0 });
const TOOLS = [
  { name: "get_weather", description: "Weather", input_schema: WEATHER },
  { name: "get_time", description: "Time", input_schema: NOTHING },
];

/** One conversation, in one of the three ways to read a response. */
class Chat {
  messages = [];

  constructor(mode, options = {}) {
    this.mode = mode;
    this.options = options;
  }

  ask(text) {
    this.messages.push({ role: "user", content: text });
    return this.request();
  }

  async request() {
    const request = { model: MODEL, max_tokens: 2000, messages: this.messages, tools: TOOLS, ...this.options };
    const message = await this.read(request);
    this.messages.push({ role: "assistant", content: message.content });
    this.calls = message.content.filter((block) => block.type === "tool_use");
    this.finish = message.stop_reason;
    this.message = message;
    return message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
  }

  async read(request) {
    if (this.mode === "whole") return client.messages.create(request);
    if (this.mode === "helper") return client.messages.stream(request).finalMessage();
    let message;
    for await (const event of await client.messages.create({ ...request, stream: true })) {
      const block = message?.content[event.index];
      if (event.type === "message_start") message = event.message;
      else if (event.type === "content_block_start") message.content[event.index] = { ...event.content_block, json: "" };
      else if (event.type === "content_block_delta") {
        if (event.delta.type === "text_delta") block.text += event.delta.text;
        else if (event.delta.type === "thinking_delta") block.thinking += event.delta.thinking;
        else if (event.delta.type === "input_json_delta") block.json += event.delta.partial_json;
      } else if (event.type === "content_block_stop") {
        const { json, ...rest } = block;
        message.content[event.index] = json ? { ...rest, input: JSON.parse(json) } : rest;
      } else if (event.type === "message_delta") {
        message = { ...message, stop_reason: event.delta.stop_reason, usage: event.usage };
      }
    }
    return message;
  }

  returnResults() {
    const result = ({ id, name }) => ({ type: "tool_result", tool_use_id: id, content: RESULTS[name] });
    this.messages.push({ role: "user", content: this.calls.map(result) });
    return this.request();
  }

  checkUsage(rounds) {
    const { input_tokens, output_tokens } = this.message.usage;
    assert.deepEqual([input_tokens, output_tokens], [10 * rounds, 5 * rounds]);
  }
}

/** Runs a check in all modes. */
const every = (check) => async () => {
  for (const mode of ["whole", "raw", "helper"]) {
    try {
      await check((options) => new Chat(mode, options));
    } catch (error) {
      error.stack = `with ${mode}\n${error.stack}`;
      throw error;
    }
  }
};

const user = (text) => [{ role: "user", content: text }];
const send = (text, using = client, options = {}) => () =>
  using.messages.create({ model: MODEL, max_tokens: 100, messages: user(text) }, options);

await run({
  text: every(async (create) => {
    const chat = create();
    assert.equal(await chat.ask("say Grüße aus dem Tal"), "Grüße aus dem Tal");
    assert.equal(chat.finish, "end_turn");
    chat.checkUsage(1);
    assert.equal(await chat.ask("say Again"), "Again");
  }),

  toolsOfServers: every(async (create) => {
    const chat = create();
    assert.equal(await chat.ask("rounds"), ROUNDS.join("\n\n"));
    chat.checkUsage(3);
    assert.equal(await chat.ask("parallel"), PARALLEL);
    assert.equal(await chat.ask("picture"), "Results: a dot [image].");
  }),

  toolsOfClient: every(async (create) => {
    const chat = create();
    assert.equal(await chat.ask("client"), "I look.");
    assert.deepEqual(chat.calls.map(({ name, input }) => [name, input]), [["get_weather", { city: "Paris" }]]);
    assert.equal(chat.finish, "tool_use");
    assert.equal(await chat.returnResults(), "Results: sunny.");
    await chat.ask("clients");
    assert.equal(await chat.returnResults(), "Results: sunny | noon.");
    assert.equal(await chat.ask("say end"), "end");
  }),

  toolsOfBoth: every(async (create) => {
    const chat = create();
    await chat.ask("mixed");
    assert.deepEqual(chat.calls.map(({ name }) => name), ["get_weather"]);
    contains(await chat.returnResults(), "value of a", "value of b", "sunny");
    assert.equal(await chat.ask("late"), "First.\n\nThen.");
    contains(await chat.returnResults(), "value of a", "value of b", "sunny");
    assert.equal(await chat.ask("ours"), "Results: value of a.");
  }),

  async hostedServer() {
    const request = {
      model: MODEL,
      max_tokens: 100,
      messages: user("parallel"),
      mcp_servers: [{ type: "url", name: "demo", url: "toolwire://demo" }],
      tools: [{ type: "mcp_toolset", mcp_server_name: "demo" }],
      betas: ["mcp-client-2025-11-20"],
    };
    const whole = await client.beta.messages.create(request);
    const streamed = await client.beta.messages.stream(request).finalMessage();
    for (const { content } of [whole, streamed]) {
      const kinds = content.map((block) => block.type);
      assert.deepEqual(kinds, ["mcp_tool_use", "mcp_tool_result", "mcp_tool_use", "mcp_tool_result", "text"]);
      assert.deepEqual(content[0].input, { key: "a" });
      assert.equal(content[4].text, PARALLEL);
    }
  },

  endings: every(async (create) => {
    for (const [scenario, finish] of [["length", "max_tokens"], ["refusal", "refusal"]]) {
      const chat = create();
      await chat.ask(scenario);
      assert.equal(chat.finish, finish);
    }
  }),

  thinking: every(async (create) => {
    const chat = create({ thinking: { type: "enabled", budget_tokens: 1024 } });
    assert.equal(await chat.ask("thinking"), "Done.");
    assert.equal(chat.message.content[0].thinking, "Let me think.");
    assert.equal(await chat.ask("say next"), "next");
  }),

  async errors() {
    const cases = [
      [400, 400, Anthropic.BadRequestError],
      [401, 502, Anthropic.InternalServerError],
      [404, 404, Anthropic.NotFoundError],
      [409, 409, Anthropic.ConflictError],
      [422, 422, Anthropic.UnprocessableEntityError],
      [429, 429, Anthropic.RateLimitError],
      [500, 502, Anthropic.InternalServerError],
      [503, 529, Anthropic.OverloadedError],
    ];
    for (const [status, expected, kind] of cases) {
      const error = await throws(kind, send(`status ${status}`));
      assert.equal(error.status, expected);
      contains(error.requestID, "req_");
    }
  },

  async brokenStreams() {
    for (const mode of ["raw", "helper"]) {
      await assert.rejects(new Chat(mode).ask("broken"), /the connection was reset/);
    }
  },

  async retries() {
    const retrying = new Anthropic({ baseURL: GATEWAY, apiKey: "any", maxRetries: 1 });
    await throws(Anthropic.OverloadedError, send("late-status", retrying));
    await throws(Anthropic.InternalServerError, send("status 401 once", retrying));
    await throws(Anthropic.OverloadedError, send("status 503 twice", retrying));
  },

  async keys() {
    const withKey = (key) => new Anthropic({ baseURL: GATEWAY_WITH_KEY, maxRetries: 0, ...key });
    await throws(Anthropic.AuthenticationError, send("say hi", withKey({ apiKey: "wrong" })));
    await send("say hi", withKey({ apiKey: GATEWAY_KEY }))();
    await send("say hi", withKey({ apiKey: null, authToken: GATEWAY_KEY }))();
  },

  async cancel() {
    for (const text of ["hang", "wait"]) {
      const request = { model: MODEL, max_tokens: 100, messages: user(text) };
      for await (const _ of await client.messages.create({ ...request, stream: true })) break;
      const stream = client.messages.stream(request);
      for await (const _ of stream) break;
      stream.abort();
      await throws(Anthropic.APIUserAbortError, send(text, client, { signal: AbortSignal.timeout(500) }));
      await throws(Anthropic.APIConnectionTimeoutError, send(text, client, { timeout: 500 }));
    }
  },

  async toolsOfProvider() {
    const tools = [{ type: "web_search_20250305", name: "web_search" }];
    const request = { model: "anthropic", max_tokens: 100, tools };
    const messages = user("content-search");
    const whole = await client.messages.create({ ...request, messages });
    const streamed = await client.messages.stream({ ...request, messages }).finalMessage();
    for (const { content } of [whole, streamed]) {
      const search = ["server_tool_use", "web_search_tool_result", "text"];
      assert.deepEqual(content.map((block) => block.type), [...search, ...search]);
      assert.deepEqual([content[0].input, content[3].input], [{ query: "first" }, { query: "second" }]);
      assert.equal(content[1].content[0].encrypted_content, "c2VjcmV0");
      const history = [...messages, { role: "assistant", content }, ...user("say next")];
      const next = await client.messages.create({ ...request, messages: history });
      assert.equal(next.content[0].text, "next");
    }
  },

  async omittedCitations() {
    const request = { model: MODEL, max_tokens: 100, messages: user("content-annotated") };
    const message = await client.messages.stream(request).finalMessage();
    assert.equal(message.content[0].text, "One.");
  },

  async models() {
    const names = [];
    for await (const model of client.models.list({ limit: 1 })) names.push(model.id);
    assert.deepEqual(names, ["scripted", "vendor/scripted"]);
    assert.equal((await client.models.retrieve("vendor/scripted")).id, "vendor/scripted");
    const { input_tokens } = await client.messages.countTokens({ model: MODEL, messages: user("say hi") });
    assert.ok(input_tokens > 0);
  },
});
