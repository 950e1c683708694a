// A small MCP server for tests, over stdio. The JSON file of its argument says what it lists:
// `{"tools", "info"?, "instructions"?, "stderr"?, "exit"?, "pause"?}`. It is read at each request. While it says
// `pause`, the server answers nothing. Its process id is in a file beside it, and the names of called tools in
// another one.
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import readline from 'node:readline';

const read = () => JSON.parse(readFileSync(process.argv[2], 'utf8'));
const { stderr = '', exit } = read();
process.stderr.write(stderr);
if (exit !== undefined) process.exit(exit);
writeFileSync(`${process.argv[2]}.pid`, String(process.pid));

const results = {
  initialize: ({ protocolVersion }) => {
    const { info = { name: 'test-server', version: '1.2.3' }, instructions } = read();
    return { protocolVersion, capabilities: { tools: {} }, serverInfo: info, instructions };
  },
  'tools/list': () => ({ tools: read().tools }),
  'tools/call': ({ name, arguments: args }) => {
    appendFileSync(`${process.argv[2]}.calls`, `${name}\n`);
    return { content: [{ type: 'text', text: `called ${name} with ${JSON.stringify(args)}` }] };
  },
  ping: () => ({}),
};

const respond = (line) => {
  if (read().pause) return void setTimeout(respond, 20, line);
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = results[method];
  const reply = result ? { result: result(params ?? {}) } : { error: { code: -32601, message: 'unknown method' } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...reply })}\n`);
};
readline.createInterface({ input: process.stdin }).on('line', respond);
