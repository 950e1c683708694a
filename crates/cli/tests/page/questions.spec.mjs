// Questions in a chat: those of servers (elicitation), and decisions about calls while others run.
import path from 'node:path';
import { calling, card, idle, last, pressWhenSeen, start, test } from './support/chat.mjs';
import { checkLooks } from './support/looks.mjs';
import { resultsOf } from './support/provider.mjs';
import { Proxy } from './support/proxy.mjs';
import { expect } from './support/test.mjs';

test.use({
  servers: {
    everything: JSON.parse(process.env.PAGE_TEST_EVERYTHING),
    modern: { command: process.execPath, args: [path.join(import.meta.dirname, 'support/modern-server.mjs')] },
    brief: { command: process.execPath, args: [path.join(import.meta.dirname, 'support/tools.mjs'), 'brief_'], tool_timeout_sec: 0.3 },
  },
});

const form = (page, name) => card(page, name).locator('.call-question');
const reply = (page, name, button) => form(page, name).getByRole('button', { name: button }).click();
/** What the tool was told, which it returns. */
const told = async (provider) => JSON.parse(resultsOf(provider.requests.at(-1)).at(-1).content);

test('a question of a server is a form in the chat of its call', async ({ page, provider, traps }) => {
  traps.allow(/status of 4/);
  provider.answer = calling(['ask']);
  await start(page, 'ask me');
  const asking = card(page, 'ask');
  await expect(asking).toHaveAttribute('data-state', 'waiting');
  await expect(form(page, 'ask')).toContainText('Server files asks:');
  await expect(form(page, 'ask')).toContainText('Which branch?');
  await expect(page).toHaveTitle(/^\? ask/);
  await expect(page.locator('#chat-list .glyph.waiting')).toHaveCount(1);
  await checkLooks(page, 'chat-question');
  // What does not match the schema is refused at its field.
  await reply(page, 'ask', 'Send to the server');
  await expect(form(page, 'ask').locator('.error')).toContainText('/branch');
  await form(page, 'ask').locator('[name="v/branch"]').fill('main');
  await form(page, 'ask').locator('[name="v/color"]').selectOption('Green');
  await form(page, 'ask').locator('[name="s/labels"][value=set]').check();
  await form(page, 'ask').getByRole('button', { name: 'Add an item' }).click();
  await form(page, 'ask').locator('[name="v/labels/0"]').selectOption('docs');
  await reply(page, 'ask', 'Send to the server');
  await idle(page);
  expect(await told(provider)).toEqual({ action: 'accept', content: { branch: 'main', force: true, color: '#0f0', labels: ['docs'] } });
  await expect(asking).toHaveAttribute('data-state', 'done');
  await expect(form(page, 'ask')).toHaveCount(0);
  await expect(page).not.toHaveTitle(/^\?/);
  await expect(page.locator('#chat-list .glyph.waiting')).toHaveCount(0);
});

for (const [how, button, action] of [['declined', /^Decline/, 'decline'], ['cancelled', 'Cancel', 'cancel']]) {
  test(`a question can be ${how}`, async ({ page, provider }) => {
    provider.answer = calling(['ask']);
    await start(page, 'ask me');
    await reply(page, 'ask', button);
    await idle(page);
    expect(await told(provider)).toEqual({ action });
  });
}

test('a question can be declined with a key', async ({ page, provider }) => {
  provider.answer = calling(['ask']);
  await start(page, 'ask me');
  await expect(form(page, 'ask')).toHaveCount(1);
  await pressWhenSeen(form(page, 'ask'), page, 'n');
  await idle(page);
  expect(await told(provider)).toEqual({ action: 'decline' });
});

test('a page to visit is a link with its host, and opens beside the chat', async ({ page, provider }) => {
  provider.answer = calling(['ask_page']);
  await start(page, 'sign');
  const link = form(page, 'ask_page').getByRole('link');
  await expect(form(page, 'ask_page').locator('b').last()).toHaveText('example.com');
  await expect(link).toHaveAttribute('href', 'https://example.com/sign?doc=1');
  await expect(link).toHaveAttribute('target', '_blank');
  await expect(link).toHaveAttribute('rel', 'noopener noreferrer');
  await reply(page, 'ask_page', 'I opened it');
  await idle(page);
  expect(await told(provider)).toEqual({ action: 'accept' });
  provider.answer = calling(['ask_page', { url: 'javascript:alert(1)' }]);
  await start(page, 'sign');
  await expect(form(page, 'ask_page')).toContainText('javascript:alert(1)');
  await expect(form(page, 'ask_page').getByRole('link')).toHaveCount(0);
  await reply(page, 'ask_page', /^Decline/);
  await idle(page);
});

test('the reference server and a server of the newest revision ask in the same way', async ({ page, provider }) => {
  provider.answer = calling(['trigger-elicitation-request']);
  await start(page, 'ask me');
  await form(page, 'trigger-elicitation-request').locator('[name="v/name"]').fill('Ada');
  await reply(page, 'trigger-elicitation-request', 'Send to the server');
  await idle(page);
  await expect(card(page, 'trigger-elicitation-request')).toContainText('Ada');
  provider.answer = calling(['trigger-url-elicitation', { url: 'https://example.com/pay' }]);
  await start(page, 'ask me');
  await expect(form(page, 'trigger-url-elicitation').getByRole('link')).toHaveAttribute('href', 'https://example.com/pay');
  await reply(page, 'trigger-url-elicitation', 'I opened it');
  await idle(page);
  await expect(card(page, 'trigger-url-elicitation')).toHaveAttribute('data-state', 'done');
  provider.answer = calling(['ask_city']);
  await start(page, 'ask me');
  await form(page, 'ask_city').locator('[name="v/city"]').fill('Oslo');
  await reply(page, 'ask_city', 'Send to the server');
  await idle(page);
  expect(await told(provider)).toEqual({ action: 'accept', content: { city: 'Oslo' } });
});

test('several questions at once keep what is typed in each, over a lost connection and a reload', async ({ page, provider, gateway, traps }) => {
  traps.allow(/./); // The connection is lost on purpose.
  const proxy = await Proxy.start(gateway.url);
  provider.answer = calling(['ask_twice']);
  await page.goto(proxy.url);
  await page.locator('#composer textarea').fill('ask me twice');
  await page.locator('#composer textarea').press('Enter');
  const forms = form(page, 'ask_twice');
  await expect(forms).toHaveCount(2);
  // Questions that a server asks at the same time have no order.
  const [first, second] = ['First?', 'Second?'].map((hasText) => forms.filter({ hasText }));
  await first.locator('[name="v/branch"]').fill('first');
  await second.locator('[name="v/branch"]').fill('second');
  await proxy.cut();
  await expect(forms).toHaveCount(2);
  await first.getByRole('button', { name: 'Send to the server' }).click();
  await expect(first).toHaveCount(0);
  await expect(second.locator('[name="v/branch"]')).toHaveValue('second');
  await page.reload();
  await expect(forms).toContainText('Second?');
  await forms.locator('[name="v/branch"]').fill('second');
  await forms.getByRole('button', { name: 'Send to the server' }).click();
  await idle(page);
  expect((await told(provider)).map(({ content }) => content.branch)).toEqual(['first', 'second']);
  await proxy.stop();
});

test('a question ends with its call: after a timeout, and when the response is stopped', async ({ page, provider }) => {
  provider.answer = calling(['brief_ask']);
  await start(page, 'ask me soon');
  await idle(page);
  await expect(form(page, 'brief_ask')).toHaveCount(0);
  await expect(card(page, 'brief_ask')).toHaveAttribute('data-state', 'failed');
  provider.answer = calling(['ask']);
  await start(page, 'ask me');
  await expect(form(page, 'ask')).toHaveCount(1);
  await page.locator('#main').focus();
  await page.keyboard.press('Escape');
  await idle(page);
  await expect(form(page, 'ask')).toHaveCount(0);
  await expect(page.locator('#ending')).toContainText('stopped');
});

test('of two pages, the first reply counts', async ({ page, provider, traps }) => {
  traps.allow(/status of 409/);
  provider.answer = calling(['ask']);
  await start(page, 'ask me');
  await expect(form(page, 'ask')).toHaveCount(1);
  const other = await page.context().newPage();
  await other.goto(page.url());
  const stale = await form(other, 'ask').evaluate((element) => new URLSearchParams({ question: element.elements.question.value, reply: 'accept', 'v/branch': 'late' }).toString());
  await form(page, 'ask').getByRole('button', { name: /^Decline/ }).click();
  await expect(form(other, 'ask')).toHaveCount(0);
  const late = await other.evaluate((body) => fetch(`/-${location.pathname}/answer`, { method: 'POST', headers: { accept: 'application/json' }, body: new URLSearchParams(body) }).then((answer) => answer.status), stale);
  expect(late).toBe(409);
  await idle(page);
  expect(await told(provider)).toEqual({ action: 'decline' });
  await other.close();
});

test('a client of the API is not asked, and its question is not shown in a chat', async ({ page, provider, gateway }) => {
  provider.answer = calling(['ask']);
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'scripted', messages: [{ role: 'user', content: 'ask me' }] }),
  });
  expect((await response.json()).choices[0].message.content).toBe('done');
  expect(await told(provider)).toEqual({ action: 'decline' });
  await page.goto('/');
  await expect(page.locator('.call-question')).toHaveCount(0);
});

test('an approved call runs at once, while others of the step still run', async ({ page, provider }) => {
  provider.answer = calling(['slow'], ['delete_file', { path: '/a' }], ['delete_file', { path: '/b' }]);
  await start(page, 'both');
  const cards = page.locator('.call');
  await expect(cards.nth(0)).toHaveAttribute('data-state', 'running');
  await cards.nth(1).getByRole('button', { name: /^Run once/ }).click();
  await expect(cards.nth(1)).toHaveAttribute('data-state', 'done');
  await cards.nth(2).getByRole('button', { name: /^Do not run n/ }).click();
  await expect(cards.nth(2)).toHaveAttribute('data-state', 'denied');
  await expect(cards.nth(0)).toHaveAttribute('data-state', 'running');
  const other = await page.context().newPage();
  provider.answer = (request) => (JSON.stringify(request.messages).includes('release it') ? calling(['release'])(request) : ['done']);
  await start(other, 'release it');
  await idle(page);
  await expect(cards.nth(0)).toHaveAttribute('data-state', 'done');
  await expect(last(page)).toContainText('done');
  await other.close();
});

test.describe('without JavaScript', () => {
  test.use({ javaScriptEnabled: false });

  test('one can reply', async ({ page, provider }) => {
    provider.answer = calling(['ask']);
    await page.goto('/');
    await page.locator('#composer textarea').fill('ask me');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.waitForURL('**/chat/**');
    await expect(async () => {
      await page.reload();
      await expect(form(page, 'ask')).toHaveCount(1, { timeout: 1 });
    }).toPass();
    await form(page, 'ask').locator('[name="v/branch"]').fill('main');
    await reply(page, 'ask', 'Send to the server');
    await expect(async () => {
      await page.reload();
      await expect(page.getByRole('button', { name: 'Send', exact: true })).toBeVisible({ timeout: 1 });
    }).toPass();
    expect(await told(provider)).toMatchObject({ action: 'accept', content: { branch: 'main' } });
  });
});
