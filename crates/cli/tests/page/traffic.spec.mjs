// The traffic view: plots, requests, one request as a timeline.
import path from 'node:path';
import { Gateway } from './support/gateway.mjs';
import { pressSequence, tabTo } from './support/keyboard.mjs';
import { checkLooks, checkSettings, resize, smallTargets, WIDTHS } from './support/looks.mjs';
import { Provider, resultsOf } from './support/provider.mjs';
import { expect, test as base } from './support/test.mjs';

const test = base.extend({
  /** A gateway without any traffic. */
  own: async ({ page }, use) => {
    const provider = await Provider.start();
    provider.usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
    provider.answer = (request) => {
      const text = request.messages.findLast(({ role, content }) => role === 'user' && typeof content === 'string').content;
      if (text === 'fail') return [{ status: 400, message: 'the provider refuses <this>' }];
      if (text === 'calls' && !resultsOf(request).length) return [{ call: ['table', {}] }, { call: ['broken', {}] }, { call: ['json_text', {}] }];
      return ['Hello.'];
    };
    const tools = path.join(import.meta.dirname, 'support/tools.mjs');
    const priced = { ...provider.config.models.scripted, price: { input: 1_000_000, output: 2_000_000 } };
    const models = { ...provider.config.models, priced };
    const gateway = await Gateway.start({ config: { mcpServers: { files: { command: process.execPath, args: [tools] } }, toolwire: { ...provider.config, models } } });
    const ask = async (text, model = 'scripted') => {
      const response = await fetch(`${gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: text }] }),
      });
      await response.text();
      return response.status;
    };
    await use({ gateway, ask });
    await gateway.stop(page);
    await provider.stop();
  },
});

test('an empty view says what it will show', async ({ page, own: { gateway } }) => {
  await page.goto(`${gateway.url}/traffic`);
  await expect(page.locator('#no-requests')).toContainText('no requests yet');
  await checkLooks(page, 'traffic-empty');
});

test('the counts are those of what was sent, also while the page is open', async ({ page, own: { gateway, ask } }) => {
  await page.goto(`${gateway.url}/traffic`);
  for (const text of ['one', 'two', 'calls', 'fail']) await ask(text);
  expect(await ask('x', 'unknown-model')).toBe(404);
  await expect(page.locator('#requests > a')).toHaveCount(5);
  await expect(page.locator('.plot-figure').first().locator('figcaption')).toContainText('5 requests');
  await expect(page.locator('main')).toContainText('5 requests of the last 5');
  const rows = await page.locator('[aria-labelledby=tools-title] tbody tr').evaluateAll((all) => all.map((row) => [...row.children].slice(0, 3).map((cell) => cell.textContent.trim())));
  expect(rows.sort()).toEqual([['broken', '1', '0 %'], ['json_text', '1', '100 %'], ['table', '1', '100 %']]);
  await expect(page.locator('[aria-labelledby=tools-title]')).toContainText('the disk is full');
  const { requests } = await (await page.request.get(`${gateway.url}/traffic.json`)).json();
  const outcomes = requests.map(({ outcome }) => outcome).reverse();
  expect(outcomes.slice(0, 3)).toEqual(['ok', 'ok', 'ok']);
  expect(outcomes.slice(3).every((outcome) => outcome !== 'ok')).toBe(true);
  // The values of the plot are the same.
  await page.locator('.plot-figure').first().locator('summary').click();
  await expect(page.locator('.plot-figure').first().locator('tbody tr').first()).toBeVisible();
  for (const [query, count] of [['outcome=ok', 3], ['tool=broken', 1], ['model=scripted', 4]]) {
    await page.goto(`${gateway.url}/traffic?${query}`);
    await expect(page.locator('#requests > a'), query).toHaveCount(count);
  }
  await checkLooks(page, 'traffic');
  await checkSettings(page, 'traffic');
  await resize(page, WIDTHS.phone);
  expect(await smallTargets(page)).toEqual([]);
});

test('a cost needs a price', async ({ page, own: { gateway, ask } }) => {
  const cost = page.locator('.plot-figure').last().locator('figcaption');
  await ask('one');
  await page.goto(`${gateway.url}/traffic`);
  await expect(cost).toContainText('no model here has a price');
  await ask('one', 'priced');
  await page.goto(`${gateway.url}/traffic`);
  await expect(cost).toContainText('in total; the price of 1 model is unknown');
  await page.goto(`${gateway.url}/traffic?model=priced`);
  await expect(cost).not.toContainText('unknown');
});

test('a request is a timeline whose bars never overlap', async ({ page, own: { gateway, ask } }) => {
  await ask('calls');
  await page.goto(`${gateway.url}/traffic`);
  await page.locator('#requests > a').first().click();
  await page.waitForURL('**/traffic/**');
  await expect(page.locator('.timeline rect')).toHaveCount(5);
  const lanes = await page.locator('.timeline .lane').evaluateAll((all) => all.map((lane) => [...lane.querySelectorAll('rect')].map(({ x, y, width }) => [x.baseVal.value, x.baseVal.value + width.baseVal.value, y.baseVal.value])));
  for (const [number, bars] of lanes.entries()) {
    bars.sort(([one], [other]) => one - other);
    for (const [index, [, end, y]] of bars.entries()) {
      expect(y, `lane ${number}`).toBe(bars[0][2]);
      if (index + 1 < bars.length) expect(end, `lane ${number}`).toBeLessThanOrEqual(bars[index + 1][0] + 0.1);
    }
  }
  await expect(page.locator('main table')).toContainText('failed: the disk is full');
  await expect(page.locator('.timeline')).toHaveAccessibleName(/2 steps, 3 calls/);
  await page.getByRole('link', { name: 'broken' }).click();
  await page.waitForURL('**/tools/broken');
  await page.goBack();
  await checkLooks(page, 'traffic-request');
  await checkSettings(page, 'traffic-request');
});

test('a request is found and opened with the keyboard alone', async ({ page, own: { gateway, ask } }) => {
  await ask('calls');
  await page.goto(`${gateway.url}/tools`);
  await page.locator('#main').focus();
  await pressSequence(page, ['g', 'f'], '**/traffic');
  await tabTo(page, page.getByLabel('Outcome'));
  await page.keyboard.press('ArrowDown');
  await tabTo(page, page.locator('#list').getByRole('button', { name: 'Apply' }));
  await page.keyboard.press('Enter');
  await page.waitForURL('**outcome=ok**');
  await tabTo(page, page.locator('#requests > a').first());
  await page.keyboard.press('Enter');
  await expect(page.locator('.timeline')).toBeVisible();
});

test.describe('without JavaScript', () => {
  test.use({ javaScriptEnabled: false });

  test('requests are filtered and opened', async ({ page, own: { gateway, ask } }) => {
    await ask('one');
    await ask('fail');
    await page.goto(`${gateway.url}/traffic`);
    await page.getByLabel('Outcome').selectOption('ok');
    await page.locator('#list').getByRole('button', { name: 'Apply' }).click();
    await expect(page.locator('#requests > a')).toHaveCount(1);
    await page.locator('#requests > a').click();
    await expect(page.locator('.timeline')).toBeVisible();
  });
});
