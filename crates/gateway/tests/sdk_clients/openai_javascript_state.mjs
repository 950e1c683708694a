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
});
