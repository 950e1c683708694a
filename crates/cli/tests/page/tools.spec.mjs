// The tools view: search, forms from schemas, calls by hand, their history.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Gateway } from './support/gateway.mjs';
import { expectVisibleFocus, tabTo } from './support/keyboard.mjs';
import { checkLooks, checkSettings, resize, smallTargets, WIDTHS } from './support/looks.mjs';
import { expect, test as base } from './support/test.mjs';

const PROGRAM = path.join(import.meta.dirname, 'support/mcp-server.mjs');
const ORDER = {
  name: 'order_goods',
  title: 'Order goods',
  description: 'Orders goods of a customer. Prices are in euros.',
  inputSchema: {
    type: 'object',
    properties: {
      customer: { type: 'string', minLength: 2, description: 'The name of the customer' },
      count: { type: 'integer', minimum: 1, default: 3 },
      gift: { type: ['boolean', 'null'] },
      speed: { enum: ['slow', 'fast'] },
      address: { type: 'object', properties: { city: { type: 'string', minLength: 1 }, zip: { type: 'string', pattern: '^[0-9]{5}$' } }, required: ['city'] },
      items: { type: 'array', items: { type: 'string', minLength: 2 } },
      extra: { anyOf: [{ type: 'string' }, { type: 'object', properties: { deep: { type: 'integer' } } }] },
    },
    required: ['customer'],
    additionalProperties: false,
  },
};
const other = (name, description) => ({ name, description, inputSchema: { type: 'object' } });

const test = base.extend({
  gateway: [async ({}, use) => {
    const file = path.join(mkdtempSync(path.join(tmpdir(), 'toolwire-server-')), 'server.json');
    const tools = [ORDER, other('weather', 'The weather of a place'), other('cancel_order', 'Cancels an order of goods'), other('list_orders', 'Lists orders')];
    writeFileSync(file, JSON.stringify({ tools }));
    const gateway = await Gateway.start({ config: { mcpServers: { shop: { command: process.execPath, args: [PROGRAM, file] } } } });
    await use(gateway);
    await gateway.stop();
  }, { scope: 'worker' }],
});

const sent = (page) => page.locator('#tool-form code.json');
const field = (page, pointer) => page.locator(`[data-pointer="${pointer}"]`);
const set = (page, pointer, state) => field(page, pointer).locator('.states').first().getByRole('radio', { name: state, exact: true }).check();
/** The number of calls that the server answered. */
const calls = async (page, gateway) => (await (await page.request.get(`${gateway.url}/servers/shop.json`)).json()).calls.answered;
const open = (page, args) => page.goto(`/tools/order_goods${args ? `?args=${encodeURIComponent(JSON.stringify(args))}` : ''}`);

test('a search ranks tools as the model’s search does, also in the address', async ({ page, gateway }) => {
  await page.goto('/tools');
  await expect(page.locator('#tool-entries a')).toHaveCount(4);
  await page.getByLabel('Search tools').fill('order goods');
  await expect(page.locator('#tool-entries')).toContainText('ranked as in the model');
  await expect(page.locator('#tool-entries .name')).toHaveText(['order_goods', 'cancel_order', 'list_orders'].slice(0, await page.locator('#tool-entries .name').count()));
  expect(new URL(page.url()).search).toBe('?q=order+goods');
  const { tools } = await (await page.request.get(`${gateway.url}/tools.json?q=order+goods`)).json();
  await expect(page.locator('#tool-entries .name')).toHaveText(tools.map(({ name }) => name));
  await expect(page.locator('#tool-entries .aside .num')).toHaveText(tools.map(({ score }) => score.toFixed(2)));
  await page.locator('#tool-entries a').first().click();
  await page.waitForURL('**/tools/order_goods?q=order%20goods');
  await expect(page.getByLabel('Search tools')).toHaveValue('order goods');
});

test('left out, set and null are different, and the JSON is always visible', async ({ page }) => {
  await open(page);
  await expect(sent(page)).toHaveText('{"customer":""}');
  await field(page, '/customer').locator('textarea').fill('Ada');
  await field(page, '/count').locator('input').last().fill('2');
  await set(page, '/gift', 'null');
  await field(page, '/speed').locator('select').selectOption({ label: 'fast' });
  await field(page, '/address/city').locator('textarea').fill('Oslo');
  await page.getByRole('button', { name: 'Check' }).click();
  await expect(page.locator('#tool-form .fits')).toHaveText('✓ fits the tool');
  await expect(sent(page)).toHaveText('{"customer":"Ada","count":2,"gift":null,"speed":"fast","address":{"city":"Oslo"}}');
  await set(page, '/gift', 'set');
  await set(page, '/count', 'left out');
  await field(page, '/items').getByRole('button', { name: 'Add an item' }).click();
  await field(page, '/items').locator('textarea').fill('pen');
  await field(page, '/extra').locator('textarea').fill('{"deep": 1}');
  await page.getByRole('button', { name: 'Check' }).click();
  await expect(sent(page)).toHaveText('{"customer":"Ada","gift":false,"speed":"fast","address":{"city":"Oslo"},"items":["pen"],"extra":{"deep":1}}');
});

test('violations are at their fields, all at once, and nothing is sent', async ({ page, gateway }) => {
  const before = await calls(page, gateway);
  await open(page, { customer: 'A', count: 0, address: { city: '', zip: 'x' }, items: ['ok', 'x'], extra: { deep: 'no' }, unknown: 1 });
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await expect(page.locator('#tool-form .fits')).toContainText('problems');
  for (const pointer of ['/customer', '/count', '/address/city', '/address/zip', '/extra']) {
    await expect(field(page, pointer).locator('> .violation'), pointer).toHaveCount(1);
    await expect(field(page, pointer).locator('[aria-invalid=true]').first(), pointer).toBeVisible();
  }
  await expect(field(page, '/items').locator('.form-item:nth-of-type(2) + .violation')).toHaveCount(1);
  await expect(page.locator('#tool-form > .form > .violation')).toContainText('unknown');
  expect(await calls(page, gateway)).toBe(before);
  await checkLooks(page, 'tools-violations');
});

test('a call is made, kept in the history, and used again without a call', async ({ page, gateway, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const before = await calls(page, gateway);
  await open(page);
  await field(page, '/customer').locator('textarea').fill('Ada');
  await field(page, '/customer').locator('textarea').press('Control+Enter');
  const newest = page.locator('#tool-calls > .call').first();
  await expect(newest).toContainText('called order_goods with {"customer":"Ada"}');
  await field(page, '/customer').locator('textarea').fill('Grace');
  await page.getByRole('button', { name: 'Call', exact: true }).click();
  await expect(newest).toContainText('{"customer":"Grace"}');
  await expect(page.locator('#tool-calls > .call')).toHaveCount(2);
  await page.getByRole('button', { name: 'Copy as command' }).click();
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(`toolwire call order_goods '{"customer":"Grace"}'`);
  expect(await calls(page, gateway)).toBe(before + 2);

  await page.locator('#tool-calls > .call').nth(1).locator('summary').first().click();
  await page.locator('#tool-calls > .call').nth(1).getByRole('link', { name: 'Use again' }).click();
  await expect(page.locator('#tool-form')).toContainText('the link filled in these arguments');
  await expect(sent(page)).toHaveText('{"customer":"Ada"}');
  await expect(page.locator('#tool-calls > .call')).toHaveCount(2);
  expect(await calls(page, gateway)).toBe(before + 2);
  await checkLooks(page, 'tools-history');
  await checkSettings(page, 'tools-history');
  await resize(page, WIDTHS.phone);
  expect(await smallTargets(page)).toEqual([]);
});

test('JSON in an address fills in the form and changes nothing', async ({ page, gateway }) => {
  const before = await calls(page, gateway);
  const args = { customer: 'Ada\n<b>', gift: null, address: { city: 'Oslo', street: 'x' }, items: ['one', 'two'], extra: 'text' };
  await open(page, args);
  await expect(sent(page)).toHaveText(JSON.stringify(args));
  await page.getByRole('button', { name: 'Check' }).click();
  await expect(sent(page)).toHaveText(JSON.stringify(args));
  expect(await calls(page, gateway)).toBe(before);
});

test('a tool is found and called with the keyboard alone', async ({ page }) => {
  await page.goto('/tools');
  await page.keyboard.press('/');
  await expect(page.getByLabel('Search tools')).toBeFocused();
  await page.keyboard.type('goods');
  await expect(page.locator('#tool-entries')).toContainText('ranked as in the model');
  await tabTo(page, page.locator('#tool-entries a', { hasText: 'order_goods' }));
  await page.keyboard.press('Enter');
  await page.waitForURL('**/tools/order_goods**');
  await tabTo(page, field(page, '/customer').locator('textarea'));
  await page.keyboard.type('Ada');
  // The state of a nullable field: arrows choose.
  await tabTo(page, field(page, '/gift').locator('[type=radio]:checked'));
  await page.keyboard.press('ArrowRight');
  await expect(field(page, '/gift')).toHaveAttribute('data-state', 'set');
  await page.keyboard.press('ArrowRight');
  await expect(field(page, '/gift')).toHaveAttribute('data-state', 'null');
  await page.keyboard.press('Control+Enter');
  await expect(page.locator('#tool-calls > .call').first()).toContainText('called order_goods with {"customer":"Ada","gift":null}');
  await expectVisibleFocus(page);
});

test.describe('without JavaScript', () => {
  test.use({ javaScriptEnabled: false });

  test('a tool is searched and called', async ({ page }) => {
    await page.goto('/tools');
    await page.getByLabel('Search tools').fill('goods');
    await page.getByLabel('Search tools').press('Enter');
    await page.waitForURL('**/tools?q=goods');
    await page.locator('#tool-entries a', { hasText: 'order_goods' }).click();
    await field(page, '/customer').locator('textarea').fill('A');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await expect(field(page, '/customer').locator('.violation')).toBeVisible();
    await field(page, '/customer').locator('textarea').fill('Ada');
    await page.getByRole('button', { name: 'Call', exact: true }).click();
    await expect(page.locator('#tool-calls > .call').first()).toContainText('called order_goods with {"customer":"Ada"}');
  });
});
