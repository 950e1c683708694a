// Pages of an attacker: one whose name now has the address of the gateway (DNS rebinding), and pages of other sites.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { chromium, expect, test } from '@playwright/test';
import { attack, AttackerServer, requests } from './support/attacker.mjs';
import { Gateway, portToKeep } from './support/gateway.mjs';
import { Provider } from './support/provider.mjs';

const NAMES = ['evil.test', 'localhost.evil.test', '127.0.0.1.evil.test'];
const MODEL = 'scripted';
const TOOL = 'delete_everything';

/** Starts everything that a test needs. `calls` returns the names of the tools that were called. */
async function start(port) {
  const provider = await Provider.start();
  const folder = await mkdtemp(path.join(tmpdir(), 'toolwire-page-'));
  const file = path.join(folder, 'server.json');
  await writeFile(file, JSON.stringify({ tools: [{ name: TOOL, description: 'Deletes everything', inputSchema: { type: 'object' } }] }));
  const server = { command: process.execPath, args: [path.join(import.meta.dirname, 'support/mcp-server.mjs'), file] };
  const gateway = await Gateway.start({ port, config: { mcpServers: { files: server }, toolwire: provider.config } });
  const calls = async () => (await readFile(`${file}.calls`, 'utf8').catch(() => '')).split('\n').filter(Boolean);
  const stop = async () => {
    await provider.stop();
    await gateway.stop();
    await rm(folder, { recursive: true, force: true });
  };
  return { gateway, provider, calls, stop };
}

async function browser() {
  // Each name of the attacker has the address of this machine.
  const rules = 'MAP *.test 127.0.0.1';
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--disable-dev-shm-usage', `--host-resolver-rules=${rules}`] });
}

/** The number of responses of the gateway with each status. */
async function statuses(gateway) {
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  const counts = {};
  for (const line of metrics.split('\n')) {
    const found = /^http_server_request_duration_seconds_count\{.*http_response_status_code="(\d+)".*\} (\d+)$/.exec(line);
    if (found) counts[found[1]] = (counts[found[1]] ?? 0) + Number(found[2]);
  }
  return counts;
}

/** Checks that the page had no effect and could read nothing. Returns the number of refused requests. */
async function expectNothing({ gateway, provider, calls }, results, before) {
  expect(results.filter(({ event }) => event && event !== 'error'), 'nothing is loaded').toEqual([]);
  expect(results.filter(({ status }) => status && status !== 403), 'no request is served').toEqual([]);
  const secrets = [MODEL, TOOL, 'files', 'toolwire_', '"ok"'];
  expect(results.filter(({ text }) => text && secrets.some((secret) => text.includes(secret))), 'nothing is readable').toEqual([]);
  expect(provider.requests, 'no model is asked').toEqual([]);
  expect(await calls(), 'no tool is called').toEqual([]);
  const after = await statuses(gateway);
  const served = Object.keys(after).filter((status) => status !== '403' && after[status] !== (before[status] ?? 0));
  // The metrics of `before` were themselves one request.
  expect(served.map((status) => [status, after[status] - (before[status] ?? 0)]), 'only requests of the test are served').toEqual([['200', 1]]);
  return (after['403'] ?? 0) - (before['403'] ?? 0);
}

/** Checks that the same requests have effects when a program sends them: else the tests could not fail. */
async function expectEffects({ gateway, provider, calls }) {
  const found = [];
  for (const { path: address, method, headers, type, body } of requests(MODEL, TOOL)) {
    // The page accepts forms only from itself.
    const own = type ? { 'content-type': type, origin: gateway.url } : {};
    const response = await fetch(`${gateway.url}${address}`, { method, body, headers: { ...headers, ...own } });
    found.push([address, response.status]);
    await response.text();
  }
  expect(found.filter(([, status]) => status >= 400)).toEqual([]);
  expect(provider.requests.length).toBe(4);
  expect((await calls()).length).toBe(2);
}

test('a page whose name has the address of the gateway reaches nothing', async () => {
  const port = await portToKeep();
  const attacker = await AttackerServer.start(port);
  const chrome = await browser();
  const pages = [];
  for (const name of NAMES) {
    const page = await chrome.newPage();
    await page.goto(`http://${name}:${port}/`);
    pages.push(page);
  }
  // From now on, the gateway has the address and the port of the origin of these pages.
  await attacker.stop();
  const started = await start(port);
  for (const [index, page] of pages.entries()) {
    const before = await statuses(started.gateway);
    const results = await page.evaluate(attack, { base: '', requests: requests(MODEL, TOOL) });
    const refused = await expectNothing(started, results, before);
    // It is a page of the same origin, so it reads that it was refused.
    const fetched = results.filter(({ way }) => way === 'fetch');
    expect(fetched.every(({ status, text }) => status === 403 && text.includes(`${NAMES[index]}:${port}`))).toBe(true);
    expect(refused, 'all requests have reached the gateway').toBeGreaterThan(results.length * 0.9);
  }
  await expectEffects(started);
  await chrome.close();
  await started.stop();
});

test('pages of other sites and of other local ports reach nothing', async () => {
  const attacker = await AttackerServer.start();
  const chrome = await browser();
  const started = await start();
  const { port } = started.gateway;
  for (const [name, base] of [['evil.test', `http://127.0.0.1:${port}`], ['evil.test', `http://localhost:${port}`], ['127.0.0.1', `http://127.0.0.1:${port}`], ['localhost', `http://localhost:${port}`]]) {
    const page = await chrome.newPage();
    await page.goto(`http://${name}:${attacker.port}/`);
    const before = await statuses(started.gateway);
    const results = await page.evaluate(attack, { base, requests: requests(MODEL, TOOL) });
    const refused = await expectNothing(started, results, before);
    expect(results.filter(({ status, text }) => status || text), 'the page reads nothing').toEqual([]);
    expect(refused, 'requests have reached the gateway').toBeGreaterThan(results.length / 2);
    await page.close();
  }
  await expectEffects(started);
  await chrome.close();
  await attacker.stop();
  await started.stop();
});
