// The SDK of OpenAI for JavaScript: stored responses.

import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${GATEWAY}/v1`, apiKey: "any", maxRetries: 0 });
const TOOLS = [{ type: "function", name: "get_weather", parameters: WEATHER, strict: false }];

const create = (input, fields = {}) => client.responses.create({ model: MODEL, input, ...fields });

await run({
  async createAndRetrieve() {
    const response = await create("rounds");
    const retrieved = await client.responses.retrieve(response.id);
    assert.deepEqual([retrieved.id, retrieved.output], [response.id, response.output]);
    const streamed = await client.responses.stream({ model: MODEL, input: "say hi" }).finalResponse();
    assert.equal((await client.responses.retrieve(streamed.id)).output_text, "hi");
  },

  async conversation() {
    const first = await create("ours");
    const second = await create("say two", { previous_response_id: first.id });
    assert.deepEqual([second.output_text, second.previous_response_id], ["two", first.id]);
    const request = { model: MODEL, input: "say three", previous_response_id: second.id };
    const third = await client.responses.stream(request).finalResponse();
    assert.deepEqual([third.output_text, third.previous_response_id], ["three", second.id]);
    const texts = [];
    for await (const item of client.responses.inputItems.list(third.id, { limit: 2, order: "asc" })) {
      texts.push(item.content[0].text);
    }
    assert.deepEqual(texts, ["ours", "Results: value of a.", "say two", "two", "say three"]);
  },

  async toolOfClient() {
    const first = await create("mixed", { tools: TOOLS });
    const [call] = first.output.filter((item) => item.type === "function_call");
    const result = { type: "function_call_output", call_id: call.call_id, output: "sunny" };
    const second = await create([result], { tools: TOOLS, previous_response_id: first.id });
    contains(second.output_text, "sunny", "value of a");
  },

  async deletion() {
    const response = await create("say hi");
    await client.responses.delete(response.id);
    await throws(OpenAI.NotFoundError, () => client.responses.retrieve(response.id));
    const error = await throws(OpenAI.BadRequestError, () => create("x", { previous_response_id: response.id }));
    assert.deepEqual([error.code, error.param], ["previous_response_not_found", "previous_response_id"]);
  },

  async conversations() {
    const items = [{ type: "message", role: "user", content: "zero" }];
    const conversation = await client.conversations.create({ metadata: { a: "b" }, items });
    await client.conversations.update(conversation.id, { metadata: { c: "d" } });
    assert.deepEqual((await client.conversations.retrieve(conversation.id)).metadata, { c: "d" });
    await create("say one", { conversation: conversation.id });
    const texts = [];
    for await (const item of client.conversations.items.list(conversation.id, { order: "asc", limit: 2 })) {
      texts.push(item.content[0].text);
    }
    assert.deepEqual(texts, ["zero", "say one", "one"]);
    assert.equal((await client.conversations.delete(conversation.id)).deleted, true);
    await throws(OpenAI.NotFoundError, () => client.conversations.retrieve(conversation.id));
  },

  async background() {
    let response = await create("rounds", { background: true });
    assert.deepEqual([response.status, response.background], ["queued", true]);
    while (["queued", "in_progress"].includes(response.status)) {
      response = await client.responses.retrieve(response.id);
    }
    assert.equal(response.status, "completed");
    const events = [];
    for await (const event of await client.responses.retrieve(response.id, { stream: true })) events.push(event);
    assert.deepEqual(events.map((event) => event.sequence_number), [...events.keys()]);
    const rest = [];
    const query = { stream: true, starting_after: 5 };
    for await (const event of await client.responses.retrieve(response.id, query)) rest.push(event);
    assert.deepEqual(rest, events.slice(6));
    const stream = client.responses.stream({ response_id: response.id, starting_after: 5 });
    assert.equal((await stream.finalResponse()).output_text, response.output_text);
  },

  async cancellation() {
    const response = await create("wait", { background: true });
    assert.equal((await client.responses.cancel(response.id)).status, "cancelled");
    assert.equal((await client.responses.retrieve(response.id)).status, "cancelled");
    const whole = await create("say hi");
    await throws(OpenAI.BadRequestError, () => client.responses.cancel(whole.id));
  },
});
