// The official client for JavaScript: connects, uses most features of the server, and prints the results as JSON.
// Arguments: the folder of the package, the era (`legacy` or a revision to require), then a URL or a command.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, era, ...target] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(join(folder, 'dist', name)).href);
const { Client, StreamableHTTPClientTransport } = await load('index.mjs');
const { StdioClientTransport } = await load('stdio.mjs');

const mode = era === 'legacy' ? 'legacy' : { pin: era };
const client = new Client(
  { name: 'test', version: '1.0.0' },
  { capabilities: { elicitation: {} }, versionNegotiation: { mode } },
);
client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { name: 'Oslo' } }));
const [command, ...args] = target;
const transport = command.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, env: { ...process.env } });
await client.connect(transport);

const progress = [];
const call = (name, args = {}, options = {}) => client.callTool({ name, arguments: args }, options);
const errorCode = (promise) => promise.then(() => null, (error) => error.code);
const { tools } = await client.listTools();
const results = {
  revision: client.getNegotiatedProtocolVersion(),
  server: client.getServerVersion()?.name,
  tools: tools.length,
  extra: tools.find((tool) => tool.name === 'json_schema_2020_12_tool').inputSchema.$defs.address.$anchor,
  echo: (await call('echo', { text: 'grüß dich' })).content,
  ordered: (await call('order', { thing: 'tea', count: 2, explicit_action: 'ORDER' })).structuredContent,
  violations: (await call('order', { count: 10, explicit_action: 'ORDER' })).structuredContent.data.validation_errors,
  failed: (await call('test_error_handling')).isError,
  panicked: (await call('test_panic')).isError,
  unknownTool: await errorCode(call('no_such_tool')),
  elicited: (await call('test_input_required_result_elicitation')).content,
  resource: (await client.readResource({ uri: 'test://template/7/data' })).contents[0].text,
  prompt: (await client.getPrompt({ name: 'test_simple_prompt' })).messages.length,
  completed: (
    await client.complete({
      ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' },
      argument: { name: 'arg1', value: 'par' },
    })
  ).completion.values,
};
await call('test_tool_with_progress', {}, { onprogress: ({ progress: done }) => progress.push(done) });
results.progress = progress;
await client.close();
console.log(JSON.stringify(results));
