// An MCP server whose every text is hostile. Each tool has one text of the corpus in all places.
import readline from 'node:readline';
import { CORPUS, LARGE } from './corpus.mjs';

const all = CORPUS.join('\n');
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

process.stderr.write(`${all}\n`);
process.stderr.write(Buffer.from([0xff, 0xfe, 0xc3, 0x28, 0x0a]));

/** A schema with a text as keyword values, as property and as value. */
const schema = (text) => ({
  type: 'object',
  title: text,
  description: text,
  properties: {
    [text]: { type: 'string', title: text, description: text, default: text, examples: [text], format: text },
    choice: { enum: [text, 'other', null], description: text, default: text },
    nested: { type: 'object', properties: { [text]: { type: 'array', items: { const: text } } } },
  },
  required: [text],
  $comment: text,
});

const tools = CORPUS.map((text, index) => ({
  name: `${text.slice(0, 40)}${index}`,
  title: text,
  description: text,
  inputSchema: schema(text),
  annotations: { title: text, readOnlyHint: true, [text]: text },
}));
const texts = new Map(tools.map(({ name }, index) => [name, CORPUS[index]]));
for (const name of ['changing', 'lone_surrogate', 'invalid_bytes', 'large']) tools.push({ name, description: `${name} ${process.env.GENERATION}`, inputSchema: { type: 'object' } });

const results = (text) => ({
  content: [
    { type: 'text', text },
    { type: 'text', text: JSON.stringify({ [text]: text }) },
    { type: 'resource_link', uri: text, name: text, title: text, description: text, mimeType: text },
    { type: 'resource_link', uri: `https://example.com/${encodeURIComponent(text)}`, name: text },
    { type: 'resource', resource: { uri: text, mimeType: text, text } },
    { type: 'image', data: 'AA==', mimeType: text },
    { type: 'image', data: 'PHN2Zz4=', mimeType: 'image/svg+xml' },
    { type: 'audio', data: 'AA==', mimeType: text },
    { type: text, [text]: text },
  ],
  structuredContent: { [text]: text, rows: [{ [text]: text }, { [text]: 1 }] },
});

function call({ name }) {
  if (name === 'large') return { content: [{ type: 'text', text: LARGE.word }, { type: 'text', text: LARGE.lists }] };
  const text = texts.get(name) ?? all;
  // Every third one fails, and every third one reports an error.
  const kind = CORPUS.indexOf(text) % 3;
  if (kind === 1) throw new Error(text);
  return { ...results(text), isError: kind === 2 };
}

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion,
    capabilities: { tools: {} },
    serverInfo: { name: all, title: all, version: all },
    instructions: all,
  }),
  ping: () => ({}),
  'tools/list': () => ({ tools }),
  'tools/call': call,
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  if (params?.name === 'lone_surrogate') {
    process.stdout.write(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[{"type":"text","text":"\\ud800<script>alert(1)</script>"}]}}\n`);
  } else if (params?.name === 'invalid_bytes') {
    const [before, after] = [`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[{"type":"text","text":"`, '<script>alert(1)</script>"}]}}\n'];
    process.stdout.write(Buffer.concat([Buffer.from(before), Buffer.from([0xff, 0xc3, 0x28]), Buffer.from(after)]));
  } else {
    try {
      const handler = methods[method];
      if (!handler) send({ id, error: { code: -32601, message: all } });
      else send({ id, result: handler(params ?? {}) });
    } catch (error) {
      send({ id, error: { code: -32000, message: error.message, data: { [error.message]: error.message } } });
    }
  }
}
