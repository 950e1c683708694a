// A small MCP server over stdio for the revision 2026-07-28: a question is the result of a call, which is then repeated.
import readline from 'node:readline';

const requestedSchema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const question = { method: 'elicitation/create', params: { mode: 'form', message: 'Which city?', requestedSchema } };

const results = {
  'server/discover': () => ({ supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, ttlMs: 0, cacheScope: 'private' }),
  'tools/list': () => ({ tools: [{ name: 'ask_city', annotations: { readOnlyHint: true }, inputSchema: { type: 'object' } }], ttlMs: 0, cacheScope: 'private' }),
  'tools/call': ({ inputResponses }) => (inputResponses
    ? { content: [{ type: 'text', text: JSON.stringify(inputResponses.city) }] }
    : { resultType: 'input_required', inputRequests: { city: question }, requestState: 'asked' }),
};

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = results[method];
  const reply = result ? { result: { resultType: 'complete', ...result(params ?? {}) } } : { error: { code: -32601, message: 'unknown method' } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...reply })}\n`);
});
