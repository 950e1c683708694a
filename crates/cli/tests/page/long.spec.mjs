// A conversation of 10,000 messages: sections that are filled when they come into view, and the search in one chat.
import { importLongChat, LONG_CHAT, memory, scrollThrough } from './support/long-chat.mjs';
import { Gateway } from './support/gateway.mjs';
import { expect, test as base } from './support/test.mjs';

const MESSAGES = 10_000;

const test = base.extend({
  gateway: [async ({}, use) => {
    const gateway = await Gateway.start();
    await importLongChat(gateway, MESSAGES);
    await use(gateway);
    await gateway.stop();
  }, { scope: 'worker' }],
});

const filled = (page) => page.locator('.window:has(.message)').count();

test('a long chat opens at its end, and a link to a message fills only what is near', async ({ page }) => {
  await page.goto(`/chat/${LONG_CHAT}`);
  await expect(page.locator('.window')).toHaveCount(MESSAGES / 50);
  await expect(page.locator(`#m${MESSAGES}`)).toBeInViewport();
  expect(await filled(page)).toBeLessThanOrEqual(8);
  await page.goto(`/chat/${LONG_CHAT}#m5001`);
  await expect(page.locator('#m5001')).toBeInViewport();
  await page.goto(`/chat/${LONG_CHAT}#m1`);
  await expect(page.locator('#m1')).toBeInViewport();
  expect(await filled(page)).toBeLessThanOrEqual(8);
  await page.locator('#main').focus();
  await page.keyboard.press('End');
  await expect(page.locator(`#m${MESSAGES}`)).toBeInViewport();
});

test('at most eight sections are filled, and the memory stays the same', async ({ page, context }) => {
  await page.goto(`/chat/${LONG_CHAT}`);
  await expect(page.locator(`#m${MESSAGES}`)).toBeInViewport();
  const client = await context.newCDPSession(page);
  const used = [];
  for (let round = 0; round < 3; round += 1) {
    expect(await scrollThrough(page, { to: 176 })).toBeLessThanOrEqual(8);
    used.push(await memory(client));
    await page.keyboard.press('End');
  }
  const [first, , third] = used;
  expect(third.usedSize, JSON.stringify(used)).toBeLessThan(first.usedSize * 1.1);
  expect(third.nodes, JSON.stringify(used)).toBeLessThan(first.nodes * 1.1);
});

test('the search finds all messages of the chat, also those that are not loaded', async ({ page }) => {
  await page.goto(`/chat/${LONG_CHAT}`);
  await page.locator('#main').focus();
  await page.keyboard.press('/');
  await expect(page.locator('[data-search]')).toBeFocused();
  await page.keyboard.type('wombat');
  const list = page.locator('#chat-list');
  await expect(list).toContainText('In this chat · 3 messages');
  const here = list.locator('ul').first().locator('.hit');
  await expect(here.locator('.name')).toHaveText(['message 5678', 'message 4322', 'message 1234']);
  const before = await page.evaluate(() => performance.timeOrigin);
  await here.last().click();
  await expect(page).toHaveURL(/#m1234$/);
  await expect(page.locator('#m1234')).toBeInViewport();
  await expect(page.locator('#m1234')).toContainText('wombat');
  // A result is displayed with its call.
  await here.nth(1).click();
  await expect(page.locator('#m4321')).toBeInViewport();
  expect(await page.evaluate(() => performance.timeOrigin), 'the page was not loaded again').toBe(before);
  await page.locator('[data-search]').fill('invoice');
  await expect(list).toContainText('In this chat · 500 messages');
  await expect(list).toContainText('only the latest messages are listed');
  await page.locator('[data-search]').fill('');
  await expect(list.locator('[aria-current=page]')).toContainText('A long chat');
});

test.describe('without JavaScript', () => {
  test.use({ javaScriptEnabled: false });

  test('a search has its own page', async ({ page }) => {
    await page.goto(`/chat/${LONG_CHAT}`);
    await page.locator('[data-search]').fill('wombat');
    await page.locator('[data-search]').press('Enter');
    await expect(page.locator('#chat-list')).toContainText('In this chat · 3 messages');
  });
});
