// The official client for JavaScript: connects to the gateway, uses its features, and prints the results as JSON.
// Arguments: the folder of the package, the era (`legacy` or a revision), the key or `-`, then a URL or a command.
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, era, key, ...target] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(join(folder, 'dist', name)).href);
const { Client, StreamableHTTPClientTransport } = await load('index.mjs');
const { StdioClientTransport } = await load('stdio.mjs');

const mode = era === 'legacy' ? 'legacy' : { pin: era };
const client = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode } });
const [command, ...args] = target;
const headers = key === '-' ? {} : { authorization: `Bearer ${key}` };
const transport = command.startsWith('http')
  ? new StreamableHTTPClientTransport(new URL(command), { requestInit: { headers } })
  : new StdioClientTransport({ command, args, env: { ...process.env } });
await client.connect(transport);

const progress = [];
const call = (name, args = {}, options = {}) => client.callTool({ name, arguments: args }, options);
const { tools } = await client.listTools();
const results = {
  revision: client.getNegotiatedProtocolVersion(),
  server: client.getServerVersion()?.name,
  tools: tools.length,
  echo: (await call('echo', { text: 'grüß dich' })).content,
  image: (await call('test_image_content')).content[0].mimeType,
  failed: (await call('test_error_handling')).isError,
  unknownTool: await call('no_such_tool').then(() => null, (error) => error.code),
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
