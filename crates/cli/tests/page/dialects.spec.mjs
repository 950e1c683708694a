// The view of the dialects: two sides of a tool, all dialects, pasted tools, arguments both ways, `check --html`.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { Gateway } from './support/gateway.mjs';
import { HOSTILE } from './support/hostile.mjs';
import { checkLooks } from './support/looks.mjs';
import { expect, test as base } from './support/test.mjs';

const PROGRAM = fileURLToPath(new URL('./support/mcp-server.mjs', import.meta.url));

const FLIGHTS = {
  name: 'search_flights',
  description: 'Find flights between two airports.',
  inputSchema: {
    type: 'object',
    properties: {
      from: { type: 'string', pattern: '^[A-Z]{3}$' },
      date: { type: 'string', format: 'date' },
      passengers: { type: 'integer', minimum: 1, maximum: 9, default: 1 },
      cabin: { enum: ['economy', 'business'] },
      via: { $ref: '#/$defs/Stops' },
    },
    required: ['from', 'date'],
    $defs: { Stops: { type: 'array', items: { type: 'string' }, maxItems: 3 } },
  },
};
const TRIP = {
  name: 'label_trip',
  inputSchema: { type: 'object', properties: { 'trip id': { type: 'string' }, count: { type: 'integer' } }, required: ['trip id'] },
};
const BROKEN = { name: 'broken', inputSchema: { type: 'object', properties: { a: { type: 'string' }, b: { $ref: '#/$defs/Missing' } } } };
const HOSTILE_TOOL = {
  name: 'hostile',
  description: HOSTILE.join(' '),
  inputSchema: {
    type: 'object',
    title: HOSTILE[0],
    properties: Object.fromEntries(HOSTILE.map((text) => [text, { type: 'string', title: text, description: text, default: text, enum: [text, `${text}.`], pattern: '^a', examples: [text] }])),
    required: [HOSTILE[1]],
  },
};

const folder = mkdtempSync(path.join(tmpdir(), 'toolwire-dialects-'));
const file = (name, value) => {
  const target = path.join(folder, name);
  writeFileSync(target, typeof value === 'string' ? value : JSON.stringify(value));
  return target;
};

const test = base.extend({
  gateway: [async ({}, use) => {
    const list = file('listed.json', { tools: [FLIGHTS, TRIP, HOSTILE_TOOL] });
    const gateway = await Gateway.start({ config: { mcpServers: { travel: { command: process.execPath, args: [PROGRAM, list] } } } });
    await use(gateway);
    await gateway.stop();
  }, { scope: 'worker' }],
});

/** Runs `toolwire check`, whose exit code is 1 if a tool is refused. */
async function check(...args) {
  const run = promisify(execFile);
  return run(process.env.PAGE_TEST_TOOLWIRE, ['check', ...args], { maxBuffer: 1e8 }).catch((error) => error).then(({ stdout }) => stdout);
}

const field = (page, side) => page.locator(`[id$=arguments-${side}] textarea`).first();
const notes = (page, side) => page.locator(`[id$=notes-${side}]`).first();
const json = async (locator) => JSON.parse(await locator.inputValue());

test('a tool beside its definition: each change is in place, with its reason below', async ({ page }) => {
  await page.goto('/dialects/search_flights?to=gemini');
  const removed = page.locator('.line.removed', { hasText: '"pattern"' });
  await expect(removed).toContainText('^[A-Z]{3}$');
  await expect(page.locator('.line.added', { hasText: 'pattern: ' })).toBeVisible();
  await expect(page.locator('.reason.lossy')).toContainText('widened');
  await expect(page.locator('.pair')).not.toContainText('unexplained');
  const { comparisons } = await (await page.request.get('/dialects/search_flights.json?to=gemini')).json();
  const { changes } = comparisons[0].report;
  for (const { detail } of changes) await expect(page.locator('.reason', { hasText: detail.replaceAll('`', '') })).toHaveCount(1);
  await expect(page.locator('.pair .reason[id]')).toHaveCount(changes.length);
});

test('keys: dialects, changes, only changes, swap, all, paste', async ({ page }) => {
  await page.goto('/dialects/search_flights?to=gemini');
  const url = () => new URL(page.url());
  const press = async (key, matches) => {
    await page.locator('#main').focus();
    await page.keyboard.press(key);
    await page.waitForURL(matches);
  };
  await press('ArrowRight', /to=gemini-openapi/);
  await press('ArrowLeft', /to=gemini$/);
  const unchanged = page.locator('.pair-row.far').first();
  await expect(unchanged).toBeVisible();
  await page.keyboard.press('m');
  await expect(unchanged).toBeHidden();
  await page.keyboard.press('m');
  const starts = page.locator('.pair-row.begins');
  await page.keyboard.press('n');
  await expect(starts.nth(0)).toBeFocused();
  await page.keyboard.press('n');
  await expect(starts.nth(1)).toBeFocused();
  await page.keyboard.press('p');
  await expect(starts.nth(0)).toBeFocused();
  await press('x', /to=mcp&from=gemini/);
  await expect(page.locator('.line.added', { hasText: '"pattern"' })).toBeVisible();
  await expect(page.locator('.line.removed', { hasText: 'pattern: ' })).toBeVisible();
  await press('x', /to=gemini&from=mcp|to=gemini$/);
  await press('0', () => url().searchParams.has('all'));
  await press('v', '**/dialects/try');
});

test('any dialect can be on the left', async ({ page }) => {
  await page.goto('/dialects/search_flights?to=gemini');
  await page.locator('select[name=from]').selectOption('openai-strict');
  await page.getByRole('button', { name: 'Compare' }).click();
  await page.waitForURL(/from=openai-strict/);
  await expect(page.locator('.pair-head').first()).toContainText('openai-strict');
  // Strict schemas allow null, which the other side does not have.
  await expect(page.locator('.line.removed', { hasText: 'null' }).first()).toBeVisible();
  await expect(page.locator('.pair')).not.toContainText('unexplained');
  await field(page, 'left').fill('{"from":"OSL","date":"2026-01-31","passengers":null,"cabin":null,"via":null}');
  await expect(field(page, 'right')).toHaveValue(/OSL/);
  expect(await json(field(page, 'right'))).toEqual({ from: 'OSL', date: '2026-01-31' });
});

test('arguments typed on either side are converted for the other', async ({ page }) => {
  await page.goto('/dialects/label_trip?to=anthropic');
  // Sampled arguments are there at first.
  expect(await json(field(page, 'left'))).toHaveProperty('trip id');
  expect(await json(field(page, 'right'))).toHaveProperty('trip_id');
  await field(page, 'left').fill('{"trip id": "Oslo", "count": 2}');
  await expect(field(page, 'right')).toHaveValue(/Oslo/);
  expect(await json(field(page, 'right'))).toEqual({ trip_id: 'Oslo', count: 2 });
  await expect(notes(page, 'left')).toContainText('fits');
  await expect(field(page, 'left')).toBeFocused();

  // A repair is listed at its place.
  await field(page, 'right').fill('{"trip_id": "Bergen", "count": "7"}');
  await expect(field(page, 'left')).toHaveValue(/Bergen/);
  expect(await json(field(page, 'left'))).toEqual({ 'trip id': 'Bergen', count: 7 });
  await expect(notes(page, 'right')).toContainText('1 repair');
  await expect(notes(page, 'right').locator('.line.rewritten', { hasText: '"count"' })).toBeVisible();

  // A violation is marked at its place, and nothing is converted.
  await field(page, 'right').fill('{"trip_id": 5, "count": "many"}');
  await expect(notes(page, 'right').locator('.line.refused', { hasText: '"count": "many"' })).toBeVisible();
  await expect(notes(page, 'right').locator('.reason.refused', { hasText: '/count' })).toBeVisible();
  await expect(field(page, 'left')).toHaveValue('');
  await field(page, 'left').fill('{"trip id": ');
  await expect(notes(page, 'left')).toContainText('line 1 column');
});

test('all dialects are the reports of `check --json`', async ({ page }) => {
  const reports = JSON.parse(await check(file('flights.json', FLIGHTS), '--json'));
  await page.goto('/dialects/search_flights?all');
  const rows = page.locator('.matrix tbody tr');
  const dialects = await page.locator('.matrix thead .tall').allTextContents();
  expect(dialects).toEqual(reports.map(({ dialect }) => dialect));
  const statuses = await rows.first().locator('td a').evaluateAll((all) => all.map((cell) => cell.getAttribute('aria-label')));
  expect(statuses).toEqual(reports.map(({ dialect, status }) => `${dialect}: ${status}`));
  const shown = await rows.evaluateAll((all) => all.slice(1).map((row) => [row.querySelector('p').textContent, [...row.querySelectorAll('td')].map((cell) => !!cell.querySelector('a'))]));
  const changes = new Map();
  reports.forEach(({ changes: all }, column) => {
    for (const { pointer, keyword, effect, detail } of all) {
      const key = JSON.stringify([pointer, keyword, effect, detail]);
      changes.set(key, changes.get(key) ?? { text: `${effect} ${detail.replaceAll('`', '')}`, columns: reports.map(() => false) });
      changes.get(key).columns[column] = true;
    }
  });
  const sorted = (rows) => rows.map((row) => JSON.stringify(row)).sort();
  expect(sorted(shown)).toEqual(sorted([...changes.values()].map(({ text, columns }) => [text, columns])));
  // A symbol leads to its line, and the place lights up in each dialect.
  const symbol = page.locator('.place a.glyph.lossy').first();
  await symbol.focus();
  const lit = await symbol.evaluate((cell) => [...cell.closest('.place').querySelectorAll('td')].every((each) => getComputedStyle(each).boxShadow !== 'none'));
  expect(lit).toBe(true);
  await symbol.press('Enter');
  await page.waitForURL(/#c\d+$/);
  await expect(page.locator('.reason:target')).toBeInViewport();
});

test('pasted tools: one, an array, an answer, the format of an API', async ({ page }) => {
  const paste = async (value, format = 'mcp') => {
    await page.goto('/dialects/try');
    await page.locator('[name=text]').fill(typeof value === 'string' ? value : JSON.stringify(value, null, 2));
    await page.locator('.paste [name=from]').selectOption(format);
    await page.getByRole('button', { name: 'Compare' }).click();
  };
  const names = page.locator('.matrix tbody th');
  await paste(TRIP);
  await expect(names).toHaveText(['label_trip']);
  await page.locator('details.variant', { hasText: 'anthropic' }).first().locator('summary').first().click();
  await page.locator('details[open] [id$=arguments-left] textarea').fill('{"trip id":"Rome"}');
  await expect(page.locator('details[open] [id$=arguments-right] textarea')).toHaveValue(/"trip_id": "Rome"/);
  await paste([TRIP, FLIGHTS]);
  await expect(names).toHaveText(['label_trip', 'search_flights']);
  await paste({ jsonrpc: '2.0', id: 1, result: { tools: [FLIGHTS, BROKEN] } });
  await expect(names).toHaveText(['search_flights', 'broken']);
  // A refused tool: the place is marked, and the reason is below it.
  await expect(page.locator('.reason.refused').first()).toContainText('which does not exist');
  await checkLooks(page, 'dialects-pasted');
  await paste({ type: 'function', function: { name: 'label_trip', parameters: TRIP.inputSchema } }, 'openai');
  await expect(names).toHaveText(['label_trip']);
  await paste('{"name": "a",\n  "inputSchema": {"type": }}');
  await expect(page.locator('.error')).toContainText('at line 2, column 27');
  await expect(page.locator('[name=text]')).toHaveValue(/inputSchema/);
});

test('the views fit each screen and have no barrier', async ({ page }) => {
  await page.goto('/dialects/search_flights?to=gemini');
  await field(page, 'right').fill('{"from": 5, "date": "2026-01-31", "passengers": "2"}');
  await expect(notes(page, 'right')).toContainText('/from');
  await checkLooks(page, 'dialects-pair');
  await page.goto('/dialects/search_flights?all');
  await checkLooks(page, 'dialects-all');
});

test('the keyboard alone is enough', async ({ page }) => {
  const focused = () => page.evaluate(() => document.activeElement.tagName);
  await page.goto('/dialects');
  await page.keyboard.press('/');
  await page.keyboard.type('trip');
  await expect(page.locator('.list .item')).toHaveCount(2);
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/dialects/label_trip');
  await page.keyboard.press('ArrowRight');
  await page.waitForURL(/to=openai/);
  await page.keyboard.press('n');
  await page.keyboard.press('e');
  await expect(field(page, 'left')).toBeFocused();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('{"trip id": "Lima"}');
  await page.keyboard.press('Control+Enter');
  await expect(field(page, 'right')).toHaveValue(/Lima/);
  expect(await focused()).toBe('TEXTAREA');
  // The focus is visible everywhere.
  for (let step = 0; step < 6; step += 1) {
    await page.keyboard.press('Tab');
    const outline = await page.evaluate(() => {
      const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
      return document.activeElement === document.body || (outlineStyle !== 'none' && outlineWidth !== '0px');
    });
    expect(outline).toBe(true);
  }
});

test('hostile texts are displayed and do nothing', async ({ page }) => {
  await page.goto('/dialects/hostile?to=gemini');
  await expect(page.locator('.pair')).toContainText('<img src=x onerror=alert(1)>');
  await expect(page.locator('.pair')).toContainText('⟨U+202E⟩');
  await page.goto('/dialects/hostile?all');
  await expect(page.locator('.matrix')).toContainText('<svg onload=alert(1)>');
  await page.goto('/dialects/try');
  const named = HOSTILE.slice(0, 12).map((name) => ({ ...TRIP, name, description: name }));
  await page.locator('[name=text]').fill(JSON.stringify([HOSTILE_TOOL, ...named]));
  await page.getByRole('button', { name: 'Compare' }).click();
  await expect(page.locator('.matrix tbody')).toContainText('<script>alert(1)</script>');
  await page.locator('[name=text]').fill(`</textarea><script>alert(1)</script>`);
  await page.getByRole('button', { name: 'Compare' }).click();
  await expect(page.locator('.error')).toBeVisible();
});

test('`check --html`: one file, the same each time, without requests, opened at the first refused tool', async ({ browser, page }) => {
  const tools = file('tools.json', { tools: [FLIGHTS, TRIP, HOSTILE_TOOL, BROKEN] });
  const [one, two] = ['one.html', 'two.html'].map((name) => path.join(folder, name));
  await Promise.all([check(tools, '--html', one), check(tools, '--html', two)]);
  expect(readFileSync(one, 'utf8')).toBe(readFileSync(two, 'utf8'));

  const context = await browser.newContext();
  const problems = [];
  context.on('request', (request) => request.url() !== opened && problems.push(request.url()));
  context.on('console', (message) => problems.push(message.text()));
  context.on('dialog', (dialog) => problems.push(dialog.message()));
  const opened = pathToFileURL(one).href;
  const written = await context.newPage();
  await written.goto(opened);
  const refused = written.locator('details[open] .reason.refused');
  await expect(refused).toHaveCount(1);
  await expect(written.locator('details[open] > summary')).toBeFocused();
  await expect(written.locator('details[open] > summary')).toBeInViewport();
  await checkLooks(written, 'dialects-file');
  // A symbol of the matrix opens its comparison, and the address can be passed on.
  await written.locator('.matrix a.glyph.lossy').first().click();
  await expect(written).toHaveURL(/#tool-1-\d+$/);
  await expect(written.locator(':target .reason').first()).toBeVisible();
  await expect(written.locator(':target .both-ways').first()).toContainText('"from"');
  await written.getByLabel('refused in a dialect').last().check();
  await expect(written.locator('section.tool:visible')).toHaveCount(1);

  // The comparison is that of the page.
  const rows = (locator) => locator.evaluate((pair) => [...pair.querySelectorAll('.pair-row,.reason')].map((row) => row.outerHTML.replaceAll(/ id="[^"]*"/g, '')));
  await written.getByLabel('all', { exact: true }).check();
  const [link] = await written.locator('.matrix a[aria-label^="gemini:"]').evaluateAll((all) => all.map((each) => each.getAttribute('href')));
  const inFile = await rows(written.locator(`${link} .pair`));
  await page.goto('/dialects/search_flights?to=gemini');
  expect(await rows(page.locator('.pair'))).toEqual(inFile);
  expect(problems).toEqual([]);
  await context.close();
});

test.describe('without JavaScript', () => {
  test.use({ javaScriptEnabled: false });

  test('arguments are converted, and tools are pasted', async ({ page }) => {
    await page.goto('/dialects/label_trip?to=anthropic');
    await field(page, 'right').fill('{"trip_id": "Lima", "count": "3"}');
    await page.getByRole('button', { name: 'Decode' }).click();
    expect(await json(field(page, 'left'))).toEqual({ 'trip id': 'Lima', count: 3 });
    await expect(notes(page, 'right')).toContainText('1 repair');
    await expect(page.locator('.pair')).toContainText('trip_id');
    await page.goto('/dialects/try');
    await page.locator('[name=text]').fill(JSON.stringify(TRIP));
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.locator('details.variant', { hasText: 'anthropic' }).first().locator('summary').first().click();
    await page.locator('details[open] [id$=arguments-left] textarea').fill('{"trip id": "Rome"}');
    await page.locator('details[open]').getByRole('button', { name: 'Encode' }).click();
    expect(await json(field(page, 'right'))).toEqual({ trip_id: 'Rome' });
  });
});
