// The SDK of OpenAI for JavaScript: Chat Completions and Responses.

import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const client = new OpenAI({ baseURL: `${GATEWAY}/v1`, apiKey: "any", maxRetries: 0 });
const FUNCTIONS = [
  { name: "get_weather", description: "Weather", parameters: WEATHER },
  { name: "get_time", description: "Time", parameters: NOTHING },
];

/** One conversation over Chat Completions, in one of the three ways to read a response. */
class Chat {
  static finished = "stop";
  static called = "tool_calls";
  messages = [];

  constructor(mode) {
    this.mode = mode;
  }

  ask(text) {
    this.messages.push({ role: "user", content: text });
    return this.request();
  }

  async request() {
    const tools = FUNCTIONS.map((definition) => ({ type: "function", function: definition }));
    const request = { model: MODEL, messages: this.messages, tools };
    const choice = await this.read(request);
    this.messages.push(choice.message);
    this.calls = (choice.message.tool_calls ?? []).map((call) => [call.id, call.function.name]);
    this.finish = choice.finish_reason;
    return choice.message.content ?? "";
  }

  async read(request) {
    const streamed = { ...request, stream: true, stream_options: { include_usage: true } };
    if (this.mode === "whole") {
      const completion = await client.chat.completions.create(request);
      this.usage = completion.usage;
      return completion.choices[0];
    }
    if (this.mode === "helper") {
      const stream = client.chat.completions.stream(streamed);
      const completion = await stream.finalChatCompletion();
      this.usage = completion.usage;
      return completion.choices[0];
    }
    const message = { role: "assistant", content: "" };
    let finish = null;
    for await (const chunk of await client.chat.completions.create(streamed)) {
      this.usage = chunk.usage;
      for (const { delta, finish_reason } of chunk.choices) {
        message.content += delta.content ?? "";
        for (const { index, ...call } of delta.tool_calls ?? []) (message.tool_calls ??= [])[index] = call;
        finish ??= finish_reason;
      }
    }
    return { message, finish_reason: finish };
  }

  returnResults() {
    for (const [id, name] of this.calls) this.messages.push({ role: "tool", tool_call_id: id, content: RESULTS[name] });
    return this.request();
  }

  checkUsage(rounds) {
    assert.deepEqual([this.usage.prompt_tokens, this.usage.completion_tokens], [10 * rounds, 5 * rounds]);
  }
}

/** One conversation over Responses, in one of the three ways to read a response. */
class Responses {
  static finished = "completed";
  static called = "completed";
  input = [];

  constructor(mode, options) {
    this.mode = mode;
    this.options = options;
  }

  ask(text) {
    this.input.push({ role: "user", content: text });
    return this.request();
  }

  async request() {
    const tools = FUNCTIONS.map((definition) => ({ type: "function", strict: false, ...definition }));
    const response = await this.read({ model: MODEL, input: this.input, tools, ...this.options });
    this.response = response;
    this.input.push(...response.output.map(({ parsed_arguments, ...item }) => item));
    const calls = response.output.filter((item) => item.type === "function_call");
    this.calls = calls.map((item) => [item.call_id, item.name]);
    this.finish = response.status;
    this.usage = response.usage;
    const messages = response.output.filter((item) => item.type === "message");
    return messages.map((item) => item.content.map((part) => part.text).join("")).join("\n\n");
  }

  async read(request) {
    if (this.mode === "whole") return client.responses.create(request);
    if (this.mode === "helper") return client.responses.stream(request).finalResponse();
    let last;
    for await (const event of await client.responses.create({ ...request, stream: true })) last = event;
    return last.response;
  }

  returnResults() {
    for (const [id, name] of this.calls) {
      this.input.push({ type: "function_call_output", call_id: id, output: RESULTS[name] });
    }
    return this.request();
  }

  checkUsage(rounds) {
    assert.deepEqual([this.usage.input_tokens, this.usage.output_tokens], [10 * rounds, 5 * rounds]);
  }
}

/** Runs a check with both APIs in all modes. */
const every = (check) => async () => {
  for (const API of [Chat, Responses]) {
    for (const mode of ["whole", "raw", "helper"]) {
      try {
        await check(() => new API(mode), API);
      } catch (error) {
        error.stack = `with ${API.name}, ${mode}\n${error.stack}`;
        throw error;
      }
    }
  }
};

const user = (text) => [{ role: "user", content: text }];

/** Returns a request in each API. */
const requests = (text, using = client, options = {}) => [
  () => using.chat.completions.create({ model: MODEL, messages: user(text) }, options),
  () => using.responses.create({ model: MODEL, input: text }, options),
];

await run({
  text: every(async (create, API) => {
    const chat = create();
    assert.equal(await chat.ask("say Grüße aus dem Tal"), "Grüße aus dem Tal");
    assert.equal(chat.finish, API.finished);
    chat.checkUsage(1);
    assert.equal(await chat.ask("say Again"), "Again");
  }),

  toolsOfServers: every(async (create) => {
    const chat = create();
    assert.equal(await chat.ask("rounds"), ROUNDS.join("\n\n"));
    chat.checkUsage(3);
    assert.deepEqual(chat.calls, []);
    assert.equal(await chat.ask("parallel"), PARALLEL);
    assert.equal(await chat.ask("picture"), "Results: a dot [image].");
  }),

  toolsOfClient: every(async (create, API) => {
    const chat = create();
    assert.equal(await chat.ask("client"), "I look.");
    assert.equal(chat.finish, API.called);
    assert.equal(await chat.returnResults(), "Results: sunny.");
    await chat.ask("clients");
    assert.deepEqual(chat.calls.map(([, name]) => name), ["get_weather", "get_time"]);
    assert.equal(await chat.returnResults(), "Results: sunny | noon.");
    assert.equal(await chat.ask("say end"), "end");
  }),

  toolsOfBoth: every(async (create) => {
    const chat = create();
    await chat.ask("mixed");
    assert.deepEqual(chat.calls.map(([, name]) => name), ["get_weather"]);
    contains(await chat.returnResults(), "value of a", "value of b", "sunny");
    assert.equal(await chat.ask("late"), "First.\n\nThen.");
    contains(await chat.returnResults(), "value of a", "value of b", "sunny");
    assert.equal(await chat.ask("ours"), "Results: value of a.");
  }),

  async runTools() {
    const tools = FUNCTIONS.map((definition) => ({
      type: "function",
      function: { ...definition, parse: JSON.parse, function: () => RESULTS[definition.name] },
    }));
    for (const stream of [false, true]) {
      for (const scenario of ["mixed", "late"]) {
        const runner = client.chat.completions.runTools({ model: MODEL, messages: user(scenario), tools, stream });
        contains(await runner.finalContent(), "value of a", "value of b", "sunny");
      }
    }
  },

  async reasoningSummary() {
    for (const mode of ["whole", "raw", "helper"]) {
      const chat = new Responses(mode, { reasoning: { summary: "auto" } });
      assert.equal(await chat.ask("thinking"), "Done.");
      assert.deepEqual(chat.response.output.map((item) => item.type), ["reasoning", "message"]);
      assert.equal(await chat.ask("say next"), "next");
    }
  },

  async hostedServer() {
    const tools = [{ type: "mcp", server_label: "demo", require_approval: "never" }];
    for (const mode of ["whole", "raw", "helper"]) {
      const chat = new Responses(mode, { tools });
      assert.equal(await chat.ask("parallel"), PARALLEL);
      const kinds = chat.response.output.map((item) => item.type);
      assert.deepEqual(kinds, ["mcp_list_tools", "mcp_call", "mcp_call", "message"]);
      assert.equal(await chat.ask("ours"), "Results: value of a.");

      const asking = new Responses(mode, { tools: [{ type: "mcp", server_label: "demo" }] });
      await asking.ask("ours");
      const { type, id } = asking.response.output.at(-1);
      assert.equal(type, "mcp_approval_request");
      asking.input.push({ type: "mcp_approval_response", approval_request_id: id, approve: true });
      assert.equal(await asking.request(), "Results: value of a.");
    }
  },

  async structuredOutput() {
    const schema = z.object({ city: z.string(), degrees: z.number() });
    for (const question of ["json", "rounds-json"]) {
      const chat = { model: MODEL, messages: user(question), response_format: zodResponseFormat(schema, "weather") };
      assert.deepEqual((await client.chat.completions.parse(chat)).choices[0].message.parsed, PARIS);
      const completion = await client.chat.completions.stream(chat).finalChatCompletion();
      assert.deepEqual(completion.choices[0].message.parsed, PARIS);
      const request = { model: MODEL, input: question, text: { format: zodTextFormat(schema, "weather") } };
      assert.deepEqual((await client.responses.parse(request)).output_parsed, PARIS);
      assert.deepEqual((await client.responses.stream(request).finalResponse()).output_parsed, PARIS);
    }
  },

  async endings() {
    for (const mode of ["whole", "raw"]) {
      for (const [scenario, finish] of [["length", "length"], ["refusal", "content_filter"]]) {
        const chat = new Chat(mode);
        await chat.ask(scenario);
        assert.equal(chat.finish, finish);
      }
    }
    for (const mode of ["whole", "raw", "helper"]) {
      for (const [scenario, reason] of [["length", "max_output_tokens"], ["refusal", "content_filter"]]) {
        const chat = new Responses(mode);
        await chat.ask(scenario);
        assert.equal(chat.response.incomplete_details.reason, reason);
      }
    }
  },

  async errors() {
    const cases = [
      [400, OpenAI.BadRequestError, "invalid_value"],
      [401, OpenAI.InternalServerError, "upstream_auth"],
      [404, OpenAI.NotFoundError, "model_not_found"],
      [409, OpenAI.ConflictError, "conflict"],
      [422, OpenAI.UnprocessableEntityError, "invalid_value"],
      [429, OpenAI.RateLimitError, "rate_limit_exceeded"],
      [500, OpenAI.InternalServerError, "upstream_unreachable"],
    ];
    for (const [status, kind, code] of cases) {
      for (const request of requests(`status ${status}`)) {
        const error = await throws(kind, request);
        assert.equal(error.code, code);
        contains(error.requestID, "req_");
      }
    }
    const request = { model: "nobody", messages: user("say hi") };
    const error = await throws(OpenAI.NotFoundError, () => client.chat.completions.create(request));
    assert.equal(error.param, "model");
  },

  async brokenStreams() {
    await throws(OpenAI.APIError, () => new Chat("raw").ask("broken"));
    await assert.rejects(new Chat("helper").ask("broken"), /the connection was reset/);
    for (const mode of ["raw", "helper"]) {
      const chat = new Responses(mode);
      await chat.ask("broken");
      assert.equal(chat.finish, "failed");
      contains(chat.response.error.message, "the connection was reset");
    }
  },

  async retries() {
    const retrying = new OpenAI({ baseURL: `${GATEWAY}/v1`, apiKey: "any", maxRetries: 1 });
    for (const position of [0, 1]) {
      const send = (text) => requests(text, retrying)[position];
      await throws(OpenAI.InternalServerError, send(`late-status ${position}`));
      await throws(OpenAI.InternalServerError, send(`status 401 ${position} once`));
      await throws(OpenAI.InternalServerError, send(`status 503 ${position} twice`));
    }
  },

  async keys() {
    const withKey = (apiKey) => new OpenAI({ baseURL: `${GATEWAY_WITH_KEY}/v1`, apiKey, maxRetries: 0 });
    for (const request of requests("say hi", withKey("wrong"))) await throws(OpenAI.AuthenticationError, request);
    for (const request of requests("say hi", withKey(GATEWAY_KEY))) await request();
  },

  async cancel() {
    for (const text of ["hang", "wait"]) {
      const chat = await client.chat.completions.create({ model: MODEL, messages: user(text), stream: true });
      for await (const _ of chat) break;
      const responses = await client.responses.create({ model: MODEL, input: text, stream: true });
      for await (const _ of responses) break;
      const stream = client.responses.stream({ model: MODEL, input: text });
      for await (const _ of stream) break;
      stream.abort();
      for (const request of requests(text, client, { signal: AbortSignal.timeout(500) })) {
        await throws(OpenAI.APIUserAbortError, request);
      }
      for (const request of requests(text, client, { timeout: 500 })) {
        await throws(OpenAI.APIConnectionTimeoutError, request);
      }
    }
  },

  async toolsOfProvider() {
    const request = { model: "responses", tools: [{ type: "web_search" }] };
    const input = user("content-search");
    const whole = await client.responses.create({ ...request, input });
    const streamed = await client.responses.stream({ ...request, input }).finalResponse();
    for (const { output } of [whole, streamed]) {
      const types = ["web_search_call", "message", "web_search_call", "message"];
      assert.deepEqual(output.map((item) => item.type), types);
      assert.deepEqual([output[0].action.query, output[2].action.query], ["first", "second"]);
      const next = await client.responses.create({ ...request, input: [...input, ...output, ...user("say next")] });
      assert.equal(next.output_text, "next");
    }
  },

  async omittedCitations() {
    const request = { model: MODEL, messages: user("content-cited") };
    const completion = await client.chat.completions.stream(request).finalChatCompletion();
    assert.equal(completion.choices[0].message.content, "One two three.");
    const response = await client.responses.stream({ model: MODEL, input: "content-cited" }).finalResponse();
    assert.equal(response.output[0].content[0].text, "One two three.");
  },

  async forms() {
    // A provider describes the forms that it gets. The SDK writes the file first.
    const { toFile } = OpenAI;
    const bytes = new Uint8Array(300_000).map((_, index) => index % 251);
    const sound = await toFile(bytes, "a.wav");
    const { text } = await client.audio.transcriptions.create({ file: sound, model: "files", language: "de" });
    assert.deepEqual(text.split(" ").sort(), ["file:a.wav=300000", "language=de", "model=real-name"]);
    const picture = await toFile(Buffer.from("iVBORw0KGgo=", "base64"), "a.png", { type: "image/png" });
    const edited = await client.images.edit({ image: [picture, picture], prompt: "dot", model: "files" });
    const described = edited.data[0].revised_prompt;
    contains(described, "model=real-name");
    assert.equal(described.split("image[]:a.png=").length, 3, described);
    await throws(OpenAI.NotFoundError, () => client.audio.translations.create({ file: sound, model: "no-such" }));
  },

  async models() {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    assert.deepEqual(names, ["scripted", "vendor/scripted"]);
    assert.equal((await client.models.retrieve("vendor/scripted")).id, "vendor/scripted");
  },
});
