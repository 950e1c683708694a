// Hostile texts of servers, models, files and addresses, in every place that displays them.
import path from 'node:path';
import { Gateway } from './support/gateway.mjs';
import { allowParsing, expectHarmless, expectHarmlessHtml } from './support/harmless.mjs';
import { CORPUS, LARGE } from './support/corpus.mjs';
import { Provider, resultsOf } from './support/provider.mjs';
import { expect, test as base } from './support/test.mjs';

const PROGRAM = path.join(import.meta.dirname, 'support/hostile-server.mjs');
const ALL = CORPUS.join('\n');
/** A text that each page displays if it displays the corpus. */
const SEEN = '<img src=x onerror=alert(1)>';

const test = base.extend({
  provider: [async ({}, use) => {
    const provider = await Provider.start();
    await use(provider);
    await provider.stop();
  }, { scope: 'worker' }],
  gateway: [async ({ provider }, use) => {
    const entry = { command: process.execPath, args: [PROGRAM], env: { GENERATION: '1' } };
    const gateway = await Gateway.start({ config: { mcpServers: { hostile: entry }, toolwire: provider.config } });
    await use(gateway);
    await gateway.stop();
  }, { scope: 'worker' }],
});

/** The gateway received no report of a violation. */
const expectNoReport = (gateway) => expect(gateway.lines.filter((line) => line.includes('content security policy'))).toEqual([]);

/** The pages of all tools. */
async function toolPages(page) {
  await page.goto('/tools');
  // A large result adds a tool that reads the rest of it.
  await expect.poll(() => page.locator('#tool-entries a').count()).toBeGreaterThanOrEqual(CORPUS.length + 4);
  return page.locator('#tool-entries a').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
}

const unfold = (page) => page.evaluate(() => document.querySelectorAll('main details').forEach((details) => { details.open = true; }));

test('a violation of the policy is reported, so that these tests can fail', async ({ page, gateway, traps }) => {
  traps.allow(/./);
  await page.goto('/tools');
  await page.evaluate(() => { new Image().src = 'https://example.com/x.png'; });
  await expect.poll(() => gateway.lines.some((line) => line.includes('content security policy'))).toBe(true);
  gateway.lines = gateway.lines.filter((line) => !line.includes('content security policy'));
});

test('tools: names, titles, descriptions, schemas, annotations, arguments and results', async ({ page, gateway }) => {
  const pages = await toolPages(page);
  await expectHarmless(page, 'the list of tools');
  await page.goto(`/tools?q=${encodeURIComponent(ALL)}`);
  await expectHarmless(page, 'a search');
  // The others are below: without the module, and without their time.
  for (const address of pages.filter((_, index) => index % 6 === 0 || index >= CORPUS.length)) {
    await page.goto(address);
    await unfold(page);
    await expectHarmless(page, address);
    const before = await page.locator('#tool-calls > .call').count();
    await page.locator('#tool-form .primary').click();
    await expect(page.locator('#tool-calls > .call')).toHaveCount(before + 1);
    await unfold(page);
    await expectHarmless(page, `the result of ${address}`);
  }
  expectNoReport(gateway);
});

test('tools: a page without JavaScript has nothing that runs either', async ({ page, gateway }) => {
  const pages = await toolPages(page);
  await page.goto('about:blank');
  await allowParsing(page);
  for (const address of [...pages, '/tools', '/servers', '/servers/hostile', '/dialects', '/traffic']) {
    const response = await page.request.get(`${gateway.url}${address}`, { headers: { accept: 'text/html' } });
    await expectHarmlessHtml(page, await response.text(), address);
  }
  const headers = { accept: 'text/html', origin: gateway.url };
  for (const address of pages) {
    const response = await page.request.post(`${gateway.url}/-${address}/call`, { form: { act: 'call' }, headers });
    expect(response.status(), address).toBe(200);
    await expectHarmlessHtml(page, await response.text(), `the result of ${address}`);
  }
});

test('dialects: definitions in every dialect, and pasted tools', async ({ page, gateway }) => {
  const pages = await toolPages(page);
  await page.goto('/dialects');
  await expectHarmless(page, 'the matrix');
  for (const [index, address] of pages.entries()) {
    if (index % 6) continue;
    const tool = address.replace('/tools/', '/dialects/');
    const dialects = await page.goto(tool).then(() => page.locator('main a[href*="to="]').evaluateAll((links) => links.map((link) => link.getAttribute('href'))));
    await expectHarmless(page, tool);
    if (!dialects.length) continue;
    await page.goto(dialects[index % dialects.length]);
    await expectHarmless(page, dialects[index % dialects.length]);
  }
  await page.goto('/dialects/try');
  const field = page.locator('main textarea').first();
  await field.fill(JSON.stringify(CORPUS.slice(0, 45).map((text) => ({ name: text, title: text, description: text, inputSchema: { type: 'object', properties: { [text]: { enum: [text], pattern: text } } } }))));
  await field.press('Control+Enter');
  await expect(page.locator('main')).toContainText(SEEN);
  await expectHarmless(page, 'pasted tools');
  expectNoReport(gateway);
});

test('servers: information, instructions, standard error, changed definitions, the form', async ({ page, gateway }) => {
  await page.goto(gateway.adminLink);
  await page.waitForURL((url) => url.pathname !== '/sign-in');
  for (const address of ['/servers', '/servers/hostile', '/servers/hostile/edit', '/servers/hostile/remove']) {
    await page.goto(address);
    await unfold(page);
    await expectHarmless(page, address);
  }
  await page.goto('/servers/hostile');
  await unfold(page);
  await expect(page.locator('article.server')).toContainText(SEEN);
  const parameters = new URLSearchParams({ name: ALL, command: ALL, arguments: ALL, url: ALL });
  await page.goto(`/servers/new?${parameters}`);
  await expectHarmless(page, 'a form filled in by a link');
  await page.getByLabel('Name', { exact: true }).fill('<script>alert(1)</script>');
  await page.locator('[name=kind][value=command]').check();
  await page.getByLabel('Command').fill('/missing/<img src=x onerror=alert(1)>');
  await page.getByLabel('Arguments').fill('<script>alert(1)</script>');
  await page.getByRole('button', { name: 'Start and check' }).click();
  await expect(page.locator('#server-check')).toContainText('onerror');
  await page.getByRole('button', { name: 'Show the difference' }).click();
  await expect(page.locator('#file-change')).toContainText('<script>');
  await unfold(page);
  await expectHarmless(page, 'a check and a difference');
  expectNoReport(gateway);
});

test('addresses: paths and parameters', async ({ page, gateway, traps }) => {
  traps.allow(/status of 4\d\d/);
  await page.goto('about:blank');
  await allowParsing(page);
  const get = (address) => page.request.get(`${gateway.url}${address}`, { headers: { accept: 'text/html' }, maxRedirects: 0 });
  for (const text of [...CORPUS, ALL]) {
    const value = encodeURIComponent(text);
    const name = encodeURIComponent(text.replaceAll(/[/.\\]/g, ''));
    const addresses = [`/?q=${value}`, `/tools?q=${value}`, `/tools/changing?args=${value}`, `/tools/changing?args=${encodeURIComponent(JSON.stringify({ [text]: text }))}`];
    addresses.push(`/traffic?since=${value}&model=${value}&key=${value}&tool=${value}&outcome=${value}`, `/dialects/changing?to=${value}&from=${value}`, `/dialects?q=${value}`);
    addresses.push(`/sign-in?next=${value}`, `/servers/${name}`, `/tools/${name}`, `/chat/${name}`, `/dialects/${name}`, `/traffic/${name}`, `/${name}`, `/chat/x?q=${value}`);
    const responses = await Promise.all(addresses.map(get));
    for (const [index, response] of responses.entries()) {
      expect(response.status(), addresses[index]).toBeLessThan(500);
      expect(response.headers().location ?? '/', addresses[index]).toMatch(/^\/(?![/\\])/);
      await expectHarmlessHtml(page, await response.text(), addresses[index]);
    }
  }
  for (const address of [`/tools?q=${encodeURIComponent(ALL)}`, `/tools/changing?args=${encodeURIComponent(JSON.stringify({ [SEEN]: ALL }))}`, `/traffic?model=${encodeURIComponent(ALL)}`, `/sign-in?next=${encodeURIComponent('javascript:alert(1)')}`]) {
    await page.goto(address);
    await expectHarmless(page, address);
  }
  await page.goto('/tools');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('<img src=x onerror=alert(1)> hostile');
  await page.locator('#palette input').fill('');
  await expect(page.locator('#palette li').first()).toBeVisible();
  await expectHarmless(page, 'the palette');
  expectNoReport(gateway);
});

test('chat: questions, thinking, texts, links, fences, calls, titles and file names', async ({ page, gateway, provider }) => {
  const blocks = CORPUS.flatMap((text) => [text, `[${text}](${text})`, `[x](<${text}> "${text}")`, `![${text}](${text})`, `<${text}>`]);
  const fences = CORPUS.map((text) => `\n\n~~~${text.replaceAll(/[\n\r]/g, ' ')}\n${text}\n~~~\n\n`);
  const offered = (await toolPages(page)).slice(0, CORPUS.length).map((address) => decodeURIComponent(address.slice('/tools/'.length)));
  const calls = offered.filter((_, index) => index % 4 === 0).map((name) => ({ call: [name, { [SEEN]: ALL }] }));
  provider.answer = (request) => (resultsOf(request).length
    ? [blocks.join('\n\n'), ...fences, LARGE.lists, '\n\n', LARGE.quotes]
    : [{ thinking: blocks.join('\n\n') }, CORPUS[0], ...calls]);
  await page.goto('/');
  const names = CORPUS.map((text) => `${text.replaceAll(/[\0/\r\n]/g, ' ').slice(0, 80)}.txt`).slice(0, 12);
  await page.locator('[data-attach]').setInputFiles(names.map((name) => ({ name, mimeType: 'text/plain', buffer: Buffer.from(CORPUS[0]) })));
  await expect(page.locator('#attachments .chip')).toHaveCount(names.length);
  await expectHarmless(page, 'attachments');
  await page.locator('#composer textarea').fill(ALL);
  await page.locator('#composer textarea').press('Enter');
  await page.waitForURL('**/chat/**');
  await expect(page.locator('.message.model').last()).toContainText(SEEN);
  await expect(page.getByRole('button', { name: 'Send' })).toBeVisible();
  await unfold(page);
  await expectHarmless(page, 'a chat that was streamed');
  await page.reload();
  await unfold(page);
  await expectHarmless(page, 'a chat');
  await page.getByRole('button', { name: 'More' }).click();
  await page.locator('#chat-menu [name=title]').fill('</title><script>alert(1)</script>" onfocus=alert(1) \u202e');
  await page.getByRole('button', { name: 'Rename' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('</title>');
  await page.goto('/?q=alert');
  await expect(page.locator('#chat-list .hit').first()).toBeVisible();
  await expectHarmless(page, 'a search of chats');
  await page.goto('/traffic');
  await expect(page.locator('.request').first()).toBeVisible();
  await expectHarmless(page, 'the traffic');
  await page.locator('.request').first().click();
  await expect(page.locator('.timeline')).toBeVisible();
  await expectHarmless(page, 'a timeline');
  expectNoReport(gateway);
});
