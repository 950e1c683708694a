// An MCP server over stdio with results of every kind, and with hostile names and texts.
import readline from 'node:readline';
import { HOSTILE } from './hostile.mjs';

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC';
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=';
const text = (value) => ({ content: [{ type: 'text', text: value }] });
const READ = { readOnlyHint: true };
const WRITE = { destructiveHint: true };
const any = { type: 'object' };

/** Begins the names of the tools, so that two servers of this kind have different ones. */
const prefix = process.argv[2] ?? '';
const tools = {
  table: { annotations: READ, call: () => ({ content: [], structuredContent: { rows: [{ city: 'Paris', degrees: 13 }, { city: 'Oslo', degrees: 2 }] } }) },
  media: {
    annotations: READ,
    call: () => ({ content: [{ type: 'image', data: PNG, mimeType: 'image/png' }, { type: 'audio', data: WAV, mimeType: 'audio/wav' }, { type: 'image', data: 'PHN2Zz4=', mimeType: 'image/svg+xml' }] }),
  },
  resources: {
    annotations: READ,
    call: () => ({ content: [
      { type: 'resource_link', uri: 'https://example.com/a', name: 'a page' },
      { type: 'resource_link', uri: 'javascript:alert(1)', name: 'not a link' },
      { type: 'resource', resource: { uri: 'file:///notes.txt', mimeType: 'text/plain', text: 'some notes' } },
      { type: 'video', data: 'AA==' },
    ] }),
  },
  json_text: { annotations: READ, call: () => text('{"a": [1, 2]}') },
  broken: { annotations: READ, call: () => ({ ...text('the disk is full'), isError: true }) },
  slow: {
    annotations: READ,
    async call(args, progress) {
      progress({ progress: 5, total: 8, message: 'reading page 5 of 8' });
      await new Promise((resolve) => { waiting.push(resolve); });
      return text('read');
    },
  },
  release: { annotations: READ, call: () => (waiting.splice(0).forEach((resolve) => resolve()), text('released')) },
  delete_file: {
    annotations: WRITE,
    inputSchema: { type: 'object', properties: { path: { type: 'string' }, count: { type: 'integer' } }, required: ['path'], additionalProperties: false },
    call: (args) => text(`deleted ${JSON.stringify(args)}`),
  },
  ask: {
    annotations: READ,
    call: async ({ schema = QUESTION, message = 'Which branch?' }) => text(JSON.stringify(await elicit({ message, requestedSchema: schema }))),
  },
  ask_page: { annotations: READ, call: async ({ url = 'https://example.com/sign?doc=1' }) => text(JSON.stringify(await elicit({ mode: 'url', message: 'Please sign.', url, elicitationId: 'e1' }))) },
  ask_twice: { annotations: READ, call: async () => text(JSON.stringify(await Promise.all(['First?', 'Second?'].map((message) => elicit({ message, requestedSchema: QUESTION }))))) },
  hostile: { annotations: { ...READ, title: HOSTILE.join(' ') }, description: HOSTILE.join(' '), call: () => ({ content: HOSTILE.map((value) => ({ type: 'text', text: value })), structuredContent: Object.fromEntries(HOSTILE.map((value) => [value, value])) }) },
};
const waiting = [];

const QUESTION = {
  type: 'object',
  properties: {
    branch: { type: 'string', title: 'Branch', minLength: 3 },
    force: { type: 'boolean', default: true },
    color: { type: 'string', oneOf: [{ const: '#f00', title: 'Red' }, { const: '#0f0', title: 'Green' }] },
    labels: { type: 'array', items: { type: 'string', enum: ['bug', 'docs'] } },
  },
  required: ['branch'],
};
/** The questions without a reply, by the ids of their requests. */
const asked = new Map();
function elicit(params) {
  const id = `question-${asked.size + 1}`;
  send({ id, method: 'elicitation/create', params });
  return new Promise((resolve) => { asked.set(id, resolve); });
}
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

const methods = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'tools', version: '1' } }),
  ping: () => ({}),
  'tools/list': () => ({ tools: Object.entries(tools).map(([name, { call, inputSchema = any, ...rest }]) => ({ name: prefix + name, inputSchema, ...rest })) }),
  'tools/call': ({ name, arguments: args, _meta }) => tools[name.slice(prefix.length)].call(args ?? {}, (progress) => {
    if (_meta?.progressToken !== undefined) send({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, ...progress } });
  }),
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { id, method, params, result } = JSON.parse(line);
  if (id === undefined) continue;
  if (method === undefined) {
    asked.get(id)?.(result);
    continue;
  }
  const handler = methods[method];
  if (!handler) send({ id, error: { code: -32601, message: `unknown method ${method}` } });
  // The next line is read while a call runs.
  else Promise.resolve(handler(params ?? {})).then((result) => send({ id, result }), (error) => send({ id, error: { code: -32603, message: String(error) } }));
}
