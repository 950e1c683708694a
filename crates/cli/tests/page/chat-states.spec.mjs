// The chat in all its states and looks, by keyboard alone, on a phone, and its first minute.
import { calling, card, idle, last, send, start, test } from './support/chat.mjs';
import { Gateway } from './support/gateway.mjs';
import { pressSequence } from './support/keyboard.mjs';
import { checkLooks, inEachLook, expectNoSidewaysScroll, resize, smallTargets, WIDTHS } from './support/looks.mjs';
import { Gate, resultsOf } from './support/provider.mjs';
import { expect } from './support/test.mjs';

const RICH = '# A plan\n\nSome **bold** text with `code`, and [a link](https://example.com).\n\n1. one\n   - nested\n2. two\n\n> quoted\n\n```py\ndef total(items):\n    return sum(item.price for item in items)  # all of them\n```\n\n| city | degrees |\n|---|---:|\n| Paris | 13 |\n\n![remote](https://example.com/x.png)';

test('the first minute: an example, two calls, an answer', async ({ page }) => {
  const gateway = await Gateway.start();
  await page.goto(gateway.url);
  await expect(page.locator('#composer textarea')).toBeFocused();
  await expect(page.locator('.note')).toContainText('matches words and is not a language model');
  await expect(page.getByRole('link', { name: 'See get_weather in every dialect' })).toBeVisible();
  await expect(page.getByRole('link', { name: 'Paste a tool' })).toBeVisible();
  await checkLooks(page, 'chat-start');
  await page.getByRole('button', { name: 'What is the weather in Paris, and what is 25 + 17?' }).click();
  await page.waitForURL('**/chat/**');
  await idle(page);
  await expect(page.locator('.call[data-state=done] .call-name')).toHaveText(['get_weather', 'calculate']);
  await expect(last(page)).toContainText('42');
  await checkLooks(page, 'chat-first-answer');
  await gateway.stop(page);
});

test('a chat with everything in it', async ({ page, provider }) => {
  provider.answer = (request) => (resultsOf(request).length ? [{ thinking: 'Now I can say it.' }, RICH] : [{ thinking: 'Let me see.' }, 'I look.', ...['table', 'media', 'resources', 'json_text', 'broken'].map((name) => ({ call: [name, {}] }))]);
  await start(page, 'Show me everything');
  await idle(page);
  await page.locator('.message.you [data-edit]').click();
  await expect(page.locator('#composer')).toContainText('edits message 1');
  await page.locator('input[data-attach]').setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('notes') });
  await expect(page.locator('#attachments .chip')).toContainText('notes.txt');
  await checkLooks(page, 'chat-everything');
  await send(page, 'Show me everything again');
  await expect(page.locator('.message.you .branches')).toContainText('2/2');
  await idle(page);
  await page.locator('[data-search]').fill('degrees');
  await expect(page.locator('#chat-list .hit').first()).toBeVisible();
  await page.getByRole('button', { name: 'More' }).click();
  await checkLooks(page, 'chat-search-and-menu');
});

test('a chat that waits and runs, one that failed, and one that was stopped', async ({ page, provider }) => {
  provider.answer = calling(['slow'], ['delete_file', { path: '/home/me/invoices/2019', count: 2 }], ['table']);
  await start(page, 'Delete the old invoices');
  await expect(card(page, 'delete_file')).toHaveAttribute('data-state', 'waiting');
  await expect(card(page, 'table')).toHaveAttribute('data-state', 'done');
  await expect(card(page, 'slow').locator('progress')).toHaveAttribute('value', '63');
  await checkLooks(page, 'chat-waits');
  await inEachLook(page, async () => {
    expect(await page.evaluate(() => document.getAnimations().length), 'nothing moves').toBe(0);
  });
  await resize(page, WIDTHS.phone);
  expect(await smallTargets(page)).toEqual([]);
  // With the keyboard of a phone open, the buttons are still in view.
  await resize(page, { width: 390, height: 400 });
  await card(page, 'delete_file').locator('.call-head').scrollIntoViewIfNeeded();
  await expect(card(page, 'delete_file').getByRole('button', { name: /^Run once/ })).toBeInViewport({ ratio: 1 });
  await expect(card(page, 'delete_file').getByRole('button', { name: /^Do not run/ }).first()).toBeInViewport({ ratio: 1 });
  await resize(page, WIDTHS.desktop);
  await page.locator('#main').focus();
  await page.keyboard.press('Escape');
  await idle(page);
  await expect(page.locator('#ending')).toContainText('stopped');
  await checkLooks(page, 'chat-stopped');
  const gate = new Gate();
  provider.answer = () => [RICH.slice(0, 240), gate.after('')];
  // In a chat of its own: what sticky bars cover in part would be too small a target.
  await start(page, 'And now slowly');
  await expect(last(page)).toContainText('total');
  await checkLooks(page, 'chat-streams');
  provider.answer = () => [{ status: 400, message: 'the quota is used up' }];
  gate.open();
  await idle(page);
  await send(page, 'Once more');
  await expect(page.locator('#ending .error')).toContainText('the quota is used up');
  await expect(page.locator('#ending .error')).toBeInViewport({ ratio: 1 });
  await checkLooks(page, 'chat-failed');
});

test('wide texts of every script fit each screen', async ({ page, provider }) => {
  provider.answer = () => ['مرحبا بالعالم: نص طويل بالعربية يمتد على أسطر كثيرة\n\n日本語のテキスト、とても長い文章です。\n\n| ключ | значение |\n|---|---|\n| a | b |\n\n', 'w'.repeat(600)];
  await start(page, 'שלום עולם');
  await idle(page);
  await inEachLook(page, (look) => expectNoSidewaysScroll(page, look));
  await checkLooks(page, 'chat-scripts');
});

/** Presses a key until an element has the focus; on the way, the focus is always visible and never lost. */
async function walkTo(page, target, key = 'Tab') {
  for (let steps = 0; steps < 80; steps += 1) {
    if (await target.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press(key);
    const focus = await page.evaluate(() => {
      const element = document.activeElement;
      const style = (each) => getComputedStyle(each);
      const marked = [element, element.parentElement, element.closest('.composer-box, .states label, .search')].filter(Boolean);
      return {
        element: element.outerHTML.slice(0, 100),
        isLost: element === document.body,
        isMarked: marked.some((each) => (style(each).outlineStyle !== 'none' && parseFloat(style(each).outlineWidth) > 0) || style(each).boxShadow !== 'none'),
      };
    });
    expect(focus.isLost, `after ${steps} steps`).toBe(false);
    expect(focus.isMarked, focus.element).toBe(true);
  }
  throw new Error('the element cannot be reached with the keyboard');
}

test('the keyboard alone is enough: ask, decide, call a tool', async ({ page, provider }) => {
  provider.answer = calling(['delete_file', { path: '/a' }]);
  await page.goto('/');
  await page.keyboard.type('delete');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/chat/**');
  const run = card(page, 'delete_file').getByRole('button', { name: /^Run once/ });
  await expect(run).toBeVisible();
  await walkTo(page, card(page, 'delete_file').locator('[name="v/path"]'), 'Shift+Tab');
  await page.keyboard.press('Control+a');
  await page.keyboard.type('/b');
  await walkTo(page, card(page, 'delete_file').getByRole('button', { name: /^Run with your changes/ }));
  await page.keyboard.press('Enter');
  await expect(card(page, 'delete_file')).toHaveAttribute('data-state', 'done');
  await expect(card(page, 'delete_file')).toContainText('deleted {"path":"/b"}');
  await idle(page);
  expect(await page.evaluate(() => document.activeElement !== document.body), 'the focus is not lost').toBe(true);
  // To the messages, and back to the end.
  await page.locator('#composer textarea').press('Shift+Tab');
  await page.keyboard.press('k');
  await expect(page.locator('.message:focus')).toHaveCount(1);
  await page.keyboard.press('End');
  // To a tool by the palette, and a call.
  await page.keyboard.press('Control+k');
  await page.keyboard.type('@json_text');
  await expect(page.locator('#palette li').first()).toContainText('json_text');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/tools/json_text');
  await walkTo(page, page.getByRole('button', { name: 'Call', exact: true }));
  await page.keyboard.press('Enter');
  await expect(page.locator('#tool-calls details.call')).toHaveCount(1);
  expect(await page.evaluate(() => document.activeElement !== document.body), 'the focus is not lost').toBe(true);
  // And back to the chat.
  await page.locator('#main').focus();
  await pressSequence(page, ['g', 'c'], (url) => url.pathname === '/');
});
