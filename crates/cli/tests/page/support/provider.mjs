// A provider with OpenAI's Chat Completions API. The test says what the model answers.
import http from 'node:http';

export class Provider {
  /** The requests, the oldest first. */
  requests = [];
  /** Returns the answer to a request: an array of texts, `{ thinking }`, `{ call: [name, arguments] }`, `{ status }`, or promises of them. */
  answer = () => ['ok'];
  /** The tokens that each response reports. */
  usage = undefined;
  #open = new Set();

  static async start() {
    const provider = new Provider();
    provider.server = http.createServer((request, response) => provider.#respond(request, response).catch(() => response.destroy()));
    await new Promise((resolve) => provider.server.listen(0, '127.0.0.1', resolve));
    provider.url = `http://127.0.0.1:${provider.server.address().port}/v1`;
    return provider;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** The part of `toolwire` in the configuration that makes this the default model. */
  get config() {
    return {
      model: 'scripted',
      models: { scripted: { provider: 'openai', api: 'chat', model: 'scripted', baseUrl: this.url, apiKey: 'test' } },
    };
  }

  async #respond(request, response) {
    let body = '';
    for await (const part of request) body += part;
    if (request.method !== 'POST') return response.writeHead(404).end('{}');
    const asked = JSON.parse(body);
    this.requests.push(asked);
    const parts = await this.answer(asked, this.requests.length);
    const [first] = parts;
    if (first?.status) {
      response.writeHead(first.status, { 'content-type': 'application/json' });
      return response.end(JSON.stringify({ error: { message: first.message ?? 'no', type: 'x', code: null, param: null } }));
    }
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const send = (delta, finish_reason = null) => response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'scripted', choices: [{ index: 0, delta, finish_reason }] })}\n\n`);
    let calls = 0;
    for (const promised of parts) {
      const part = await promised;
      if (typeof part === 'string') send({ content: part });
      else if (part?.thinking) send({ reasoning_content: part.thinking });
      else if (part?.call) {
        const [name, args] = part.call;
        send({ tool_calls: [{ index: calls, id: `call_${this.requests.length}_${calls}`, type: 'function', function: { name, arguments: JSON.stringify(args) } }] });
        calls += 1;
      }
    }
    send({}, calls ? 'tool_calls' : 'stop');
    if (this.usage) response.write(`data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'scripted', choices: [], usage: this.usage })}\n\n`);
    response.end('data: [DONE]\n\n');
  }
}

/** The results since the last text of the user. Images of results are in messages of the user too, as arrays. */
export function resultsOf({ messages }) {
  const question = messages.findLastIndex(({ role, content }) => role === 'user' && typeof content === 'string');
  return messages.slice(question + 1).filter(({ role }) => role === 'tool');
}

/** A promise that a test fulfils: `const gate = new Gate(); …; gate.open()`. */
export class Gate {
  constructor() {
    this.opened = new Promise((resolve) => { this.open = resolve; });
  }

  /** The value when the gate is open. */
  after(value) {
    return this.opened.then(() => value);
  }
}
