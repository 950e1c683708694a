// The chat view: streaming, calls, approvals, branches, files, long conversations, and hostile texts everywhere.
import { calling, card, idle, last, pressWhenSeen, send, start, test } from './support/chat.mjs';
import { Gateway, portToKeep } from './support/gateway.mjs';
import { HOSTILE } from './support/hostile.mjs';
import { Gate, resultsOf } from './support/provider.mjs';
import { Proxy } from './support/proxy.mjs';
import { expect } from './support/test.mjs';

test('the composer is ready at the start', async ({ page }) => {
  await page.goto('/');
  await expect(page.locator('#composer textarea')).toBeFocused();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('New chat');
});

test('a response is displayed while it is written, as the stored text', async ({ page, provider }) => {
  const gate = new Gate();
  const pieces = ['# Title\n\nSome **bold', ' text** and `code`.\n\n- one\n- two\n\n```js\nconst a = 1;\n', 'let b = "x";\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThe end.'];
  provider.answer = () => [pieces[0], gate.after(pieces[1]), pieces[2]];
  await start(page, 'write');
  await expect(last(page).getByRole('heading')).toHaveText('Title');
  await expect(last(page).locator('strong')).toHaveText('bold');
  await page.evaluate(() => {
    globalThis.changed = 0;
    const heading = document.querySelector('.message.model .block');
    new MutationObserver(() => { globalThis.changed += 1; }).observe(heading, { subtree: true, childList: true, characterData: true });
  });
  gate.open();
  await expect(last(page)).toContainText('The end.');
  await idle(page);
  expect(await page.evaluate(() => globalThis.changed), 'a settled block never changes').toBe(0);
  await expect(last(page).locator('pre code')).toHaveText('const a = 1;\nlet b = "x";\n');
  await expect(last(page).locator('td').first()).toHaveText('1');
  const raw = await page.evaluate((url) => fetch(url).then((reply) => reply.text()), await last(page).locator('[data-copy-from]').getAttribute('data-copy-from'));
  expect(raw).toBe(pieces.join(''));
  // The same without the events.
  const streamed = await last(page).locator('.body').innerText();
  await page.reload();
  expect(await last(page).locator('.body').innerText()).toBe(streamed);
});

test('a fence and a list that arrive character by character end as one block each', async ({ page, provider }) => {
  const text = '1. one\n   - nested **x**\n2. two\n\n```py\nif a:\n    b()\n```\n\n[a](https://example.com) end';
  provider.answer = () => [...text];
  await start(page, 'slowly');
  await idle(page);
  await expect(last(page).locator('.block')).toHaveCount(3);
  await expect(last(page).locator('pre code')).toHaveText('if a:\n    b()\n');
  await expect(last(page).getByRole('link', { name: 'a', exact: true })).toHaveAttribute('href', 'https://example.com');
});

test('thinking is folded', async ({ page, provider }) => {
  const gate = new Gate();
  provider.answer = () => [{ thinking: 'Let me see.' }, gate.after('The answer.')];
  await start(page, 'think');
  await expect(last(page).locator('.thinking')).toContainText('Let me see.');
  await expect(last(page).locator('.thinking')).not.toHaveAttribute('open');
  gate.open();
  await idle(page);
  await last(page).locator('.thinking summary').click();
  await expect(last(page).locator('.thinking pre')).toBeVisible();
});

test('results of every kind are displayed', async ({ page, provider }) => {
  provider.answer = calling(['table'], ['media'], ['resources'], ['json_text'], ['broken']);
  await start(page, 'everything');
  await idle(page);
  await expect(card(page, 'table').getByRole('columnheader')).toHaveText(['city', 'degrees']);
  const image = card(page, 'media').locator('img');
  await expect(image).toHaveCount(1);
  await expect.poll(() => image.evaluate((element) => element.naturalWidth)).toBe(1);
  await expect(card(page, 'media').locator('audio')).toHaveCount(1);
  await expect(card(page, 'media')).toContainText('image/svg+xml');
  await expect(card(page, 'resources').getByRole('link', { name: 'a page' })).toHaveAttribute('href', 'https://example.com/a');
  await expect(card(page, 'resources').getByRole('link', { name: 'not a link' })).toHaveCount(0);
  await expect(card(page, 'resources')).toContainText('some notes');
  await expect(card(page, 'broken')).toHaveAttribute('data-state', 'failed');
  await expect(card(page, 'broken')).toContainText('the disk is full');
  await expect(last(page)).toContainText('done');
});

test('a running call shows its progress', async ({ page, provider }) => {
  provider.answer = calling(['slow']);
  await start(page, 'slow');
  const slow = card(page, 'slow');
  await expect(slow.locator('progress')).toHaveAttribute('value', '63');
  await expect(slow).toContainText('reading page 5 of 8');
  await expect(slow.locator('[data-since]')).toBeVisible();
  // Another conversation releases it; both run on the server.
  const other = await page.context().newPage();
  provider.answer = (request) => (JSON.stringify(request.messages).includes('release it') ? calling(['release'])(request) : ['done']);
  await start(other, 'release it');
  await idle(page);
  await expect(slow).toHaveAttribute('data-state', 'done');
  await other.close();
});

for (const [name, decide, state, result] of [
  ['a click', (question) => question.getByRole('button', { name: /^Run once/ }).click(), 'done', 'deleted'],
  ['the key y', (question, page) => pressWhenSeen(question, page, 'y'), 'done', 'deleted'],
  ['the key a', (question, page) => pressWhenSeen(question, page, 'a'), 'done', 'deleted'],
  ['the key n', (question, page) => pressWhenSeen(question, page, 'n'), 'denied', 'denied'],
]) {
  test(`a call is decided by ${name}`, async ({ page, provider }) => {
    provider.answer = calling(['delete_file', { path: '/a' }]);
    await start(page, 'delete');
    const deletion = card(page, 'delete_file');
    await expect(deletion).toHaveAttribute('data-state', 'waiting');
    await expect(page).toHaveTitle(/^\? delete_file/);
    await decide(deletion.locator('.call-question'), page);
    await expect(deletion).toHaveAttribute('data-state', state);
    await expect(deletion).toContainText(result);
    await idle(page);
    await expect(page).not.toHaveTitle(/^\?/);
  });
}

test('always applies to later calls of the tool in this chat', async ({ page, provider }) => {
  provider.answer = calling(['delete_file', { path: '/a' }]);
  await start(page, 'delete');
  await card(page, 'delete_file').getByRole('button', { name: /^Always/ }).click();
  await idle(page);
  await send(page, 'again');
  await expect(page.locator('.call[data-state=done]')).toHaveCount(2);
});

test('a reason reaches the model', async ({ page, provider }) => {
  provider.answer = calling(['delete_file', { path: '/a' }]);
  await start(page, 'delete');
  const question = card(page, 'delete_file').locator('.call-question');
  await page.locator('#main').focus();
  await page.keyboard.press('Shift+n');
  await question.locator('[name=because]').fill('wrong folder');
  await question.getByRole('button', { name: 'Do not run, for this reason' }).click();
  await idle(page);
  expect(JSON.stringify(provider.requests.at(-1).messages)).toContain('wrong folder');
});

test('changed arguments are checked, run, and told to the model', async ({ page, provider, traps }) => {
  traps.allow(/status of 4/);
  provider.answer = calling(['delete_file', { path: '/a' }]);
  await start(page, 'delete');
  const question = card(page, 'delete_file').locator('.call-question');
  await question.locator('[name="v/count"]').fill('many');
  await question.getByRole('button', { name: /^Run with your changes/ }).click();
  await expect(question.locator('.error')).toContainText('many is not a number');
  await expect(question.locator('[name="v/count"]')).toHaveAttribute('aria-invalid', 'true');
  await question.locator('[name="s/count"][value=left-out]').check();
  const field = question.locator('[data-pointer="/path"]').locator('input, textarea').last();
  await field.fill('/b');
  await expect(question.getByRole('button', { name: /^Run with your changes/ })).toBeVisible();
  await question.getByRole('button', { name: /^Run with your changes/ }).click();
  await idle(page);
  await expect(card(page, 'delete_file')).toContainText('ran with your arguments');
  await expect(card(page, 'delete_file')).toContainText('deleted {"path":"/b"}');
  expect(JSON.stringify(provider.requests.at(-1).messages)).toContain('It ran with');
});

test('a key that is typed in the composer decides nothing', async ({ page, provider }) => {
  provider.answer = calling(['delete_file', { path: '/a' }]);
  await start(page, 'delete');
  await expect(card(page, 'delete_file')).toHaveAttribute('data-state', 'waiting');
  await page.locator('#composer textarea').focus();
  await page.keyboard.type('yay');
  await page.keyboard.press('Escape');
  await expect(page.locator('.call[data-state=waiting], .ending p')).not.toHaveCount(0);
  expect(provider.requests.at(-1).messages.some(({ role }) => role === 'tool')).toBe(false);
});

test('of two pages, the first decision counts', async ({ page, provider }) => {
  provider.answer = calling(['delete_file', { path: '/a' }]);
  await start(page, 'delete');
  const other = await page.context().newPage();
  await other.goto(page.url());
  await card(other, 'delete_file').locator('[data-key=n]').click();
  await expect(card(page, 'delete_file')).toHaveAttribute('data-state', 'denied');
  await expect(page.locator('.call-question')).toHaveCount(0);
  await other.close();
});

test('a decision can be made after a restart of the gateway', async ({ page, provider, gateway, traps }) => {
  traps.allow(/./); // The connection is lost on purpose.
  provider.answer = calling(['delete_file', { path: '/a' }]);
  const own = await Gateway.start({ config: gateway.options.config, port: await portToKeep() });
  await page.goto(own.url);
  await send(page, 'delete');
  await page.waitForURL('**/chat/**');
  await expect(card(page, 'delete_file')).toHaveAttribute('data-state', 'waiting');
  const next = await own.restart();
  await page.reload();
  await card(page, 'delete_file').getByRole('button', { name: /^Run once/ }).click();
  await expect(card(page, 'delete_file')).toHaveAttribute('data-state', 'done');
  await next.stop();
});

test('stop keeps what came, and retry makes a branch', async ({ page, provider }) => {
  const gate = new Gate();
  provider.answer = () => ['The first words', gate.after(' and the rest')];
  await start(page, 'long');
  await expect(last(page)).toContainText('The first words');
  await page.keyboard.press('Escape');
  await idle(page);
  await expect(page.locator('#ending')).toContainText('stopped');
  await expect(last(page)).toContainText('The first words');
  gate.open();
  const before = page.url();
  provider.answer = () => ['Another answer'];
  await page.locator('#ending').getByRole('button', { name: /Retry/ }).click();
  await expect.poll(() => page.url()).not.toBe(before);
  await idle(page);
  await expect(last(page)).toContainText('Another answer');
  await expect(last(page).locator('.branches')).toContainText('2/2');
  await last(page).getByRole('link', { name: 'previous branch' }).click();
  await expect(last(page)).toContainText('The first words');
});

test('the first message can be edited', async ({ page, provider }) => {
  provider.answer = (request) => [`echo ${request.messages.at(-1).content}`];
  await start(page, 'one');
  await idle(page);
  await page.locator('.message.you [data-edit]').click();
  await expect(page.locator('#composer textarea')).toHaveValue('one');
  const before = page.url().split(/[?#]/)[0];
  await send(page, 'two');
  await expect.poll(() => page.url().split(/[?#]/)[0]).not.toBe(before);
  await idle(page);
  await expect(page.locator('.message')).toHaveCount(2);
  await expect(last(page)).toContainText('echo two');
  await expect(page.locator('.message.you .branches')).toContainText('2/2');
});

test('a failed response says why, and is retried in place', async ({ page, provider }) => {
  provider.answer = () => [{ status: 400, message: 'the quota is used up' }];
  await start(page, 'fail');
  await expect(page.locator('#ending .error')).toContainText('the quota is used up');
  await expect(page.locator('#ending .error')).toBeInViewport({ ratio: 1 });
  await expect(page.locator('.message')).toHaveCount(1);
  await expect(page.locator('#chat-facts')).toContainText('1 message');
  provider.answer = () => ['better'];
  await page.locator('#ending').getByRole('button', { name: /Retry/ }).click();
  await expect(last(page)).toContainText('better');
  await idle(page);
  await expect(page.locator('.message')).toHaveCount(2);
  await expect(page.locator('#ending')).toBeEmpty();
  await expect(page.locator('#chat-facts')).toContainText('2 messages');
  // A later question is at the top, and why its response failed is below it.
  provider.answer = () => [{ status: 400, message: 'the quota is used up' }];
  await send(page, 'fail again');
  await expect(page.locator('#ending .error')).toBeInViewport({ ratio: 1 });
  await expect(page.locator('.message')).toHaveCount(3);
  await expect(page.locator('#chat-facts')).toContainText('3 messages');
});

test('chats are renamed, searched, exported and deleted', async ({ page, provider }) => {
  provider.answer = () => ['a rare wombat'];
  await start(page, 'animals');
  await idle(page);
  await page.getByRole('button', { name: 'More' }).click();
  await page.locator('#chat-menu [name=title]').fill('About animals');
  await page.getByRole('button', { name: 'Rename' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toHaveText('About animals');
  await expect(page.locator('#chat-list [aria-current=page]')).toContainText('About animals');
  const markdown = await page.evaluate((url) => fetch(url).then((reply) => reply.text()), `${page.url().split('#')[0]}.md`);
  expect(markdown).toContain('# About animals\n\n## You\n\nanimals');
  await page.locator('[data-search]').fill('wombat');
  await page.locator('#chat-list .hit', { hasText: 'wombat' }).first().click();
  await page.waitForURL('**/chat/*#m2');
  await page.getByRole('button', { name: 'More' }).click();
  await page.locator('#chat-delete summary').click();
  await page.getByRole('button', { name: 'Delete this chat forever' }).click();
  await page.waitForURL((url) => url.pathname === '/');
  await expect(page.locator('#chat-list', { hasText: 'About animals' })).toHaveCount(0);
});

test('files are attached by choice, paste and drop, with any name, up to a size', async ({ page, provider, traps }) => {
  traps.allow(/status of 4/);
  provider.answer = () => ['seen'];
  await page.goto('/');
  const name = '"><img src=x onerror=alert(1)>.txt';
  const chips = page.locator('#attachments .chip');
  await page.locator('input[data-attach]').setInputFiles({ name, mimeType: 'image/png', buffer: Buffer.from('only <b>text</b>') });
  await expect(chips).toContainText(name);
  await expect(chips).toContainText('text');
  /** Gives files to the page as a browser does: a paste into the field, or a drop anywhere. */
  const give = (how, files) => page.evaluate(([how, files]) => {
    const data = new DataTransfer();
    for (const [name, type, content, length] of files) data.items.add(new File([length ? new Uint8Array(length) : content], name, { type }));
    const options = { bubbles: true, cancelable: true, clipboardData: data, dataTransfer: data };
    const target = how === 'paste' ? document.querySelector('#composer textarea') : document.querySelector('main');
    target.dispatchEvent(how === 'paste' ? new ClipboardEvent('paste', options) : new DragEvent(how, options));
    return document.body.className;
  }, [how, files]);
  await give('paste', [['pasted.txt', 'text/plain', 'pasted']]);
  await expect(chips).toHaveCount(2);
  await chips.last().getByRole('button').click();
  await expect(chips).toHaveCount(1);
  // A drop anywhere on the view; a name that is a path, hides its end, and breaks out of an attribute.
  const dropped = '../../etc/\u202egnp.exe"onmouseover=alert(1) x="<svg onload=alert(1)>';
  expect(await give('dragover', [['a', '', 'a']])).toContain('dropping');
  expect(await give('drop', [[dropped, 'text/html', '<script>alert(1)</script>'], ['empty.txt', 'text/plain', ' ']])).not.toContain('dropping');
  await expect(chips).toHaveCount(3);
  await expect(chips.filter({ hasText: '⟨U+202E⟩' })).toHaveCount(1);
  await expect(chips.filter({ hasText: 'empty.txt' })).toContainText('the file is empty');
  await chips.filter({ hasText: 'empty.txt' }).getByRole('button').click();
  // A file that is too large is not even sent.
  const limit = Number(await page.locator('input[data-attach]').getAttribute('data-limit'));
  let uploads = 0;
  page.on('request', (request) => { uploads += request.url().endsWith('/-/attachments') ? 1 : 0; });
  await give('drop', [['large.bin', '', '', limit + 1]]);
  await expect(chips.filter({ hasText: 'large.bin' })).toContainText('is more than');
  await chips.filter({ hasText: 'large.bin' }).getByRole('button').click();
  expect(uploads).toBe(0);
  await send(page, 'read it');
  await page.waitForURL('**/chat/**');
  await idle(page);
  await expect(page.locator('.message.you')).toContainText(name);
  await expect(page.locator('.message.you')).toContainText('⟨U+202E⟩gnp.exe');
  const sent = JSON.stringify(provider.requests.at(-1).messages);
  expect(sent).toContain('only <b>text</b>');
  expect(sent).toContain('<script>alert(1)</script>');
});

test('the model is chosen in the middle of a chat', async ({ page, provider }) => {
  provider.answer = () => ['scripted answers'];
  await start(page, 'one');
  await idle(page);
  await page.locator('#composer [name=model]').evaluate((select) => select.add(new Option('demo', 'demo', true, true)));
  await send(page, 'what can you do?');
  await expect(page.locator('.message.model')).toHaveCount(2);
  await idle(page);
  await expect(last(page)).toHaveAttribute('aria-label', 'demo');
});

test('a lost connection loses nothing, and typed text stays', async ({ page, provider, gateway, traps }) => {
  traps.allow(/./); // The connection is lost on purpose.
  const proxy = await Proxy.start(gateway.url);
  const gates = [new Gate(), new Gate()];
  provider.answer = () => ['one\n\n', gates[0].after('two\n\n'), gates[1].after('three')];
  await page.goto(proxy.url);
  await send(page, 'count');
  await page.waitForURL('**/chat/**');
  await expect(last(page)).toContainText('one');
  await page.locator('#composer textarea').fill('half a thought');
  await proxy.cut();
  gates[0].open();
  await expect(last(page)).toContainText('two');
  await proxy.cut();
  gates[1].open();
  await expect(last(page)).toContainText('three');
  await expect(last(page).locator('.block')).toHaveText(['one', 'two', 'three']);
  await expect(page.locator('#composer textarea')).toHaveValue('half a thought');
  await proxy.stop();
});

test('a stream that is cut after every piece loses and doubles nothing', async ({ page, provider, gateway, traps }) => {
  traps.allow(/./); // The connection is lost on purpose.
  const proxy = await Proxy.start(gateway.url);
  const pieces = ['# one\n\n', 'two ', '**three**\n\n- four\n', '- five\n\n```js\nsix();\n', 'seven();\n```\n\n', '| a |\n|---|\n| eight |\n', '| nine |\n\nten'];
  const gates = pieces.map(() => new Gate());
  provider.answer = () => pieces.map((piece, index) => gates[index].after(piece));
  await page.goto(proxy.url);
  await send(page, 'count');
  await page.waitForURL('**/chat/**');
  for (const [index, word] of ['one', 'two', 'four', 'six', 'seven', 'eight', 'ten'].entries()) {
    await proxy.cut();
    gates[index].open();
    await expect(last(page)).toContainText(word);
  }
  await idle(page);
  const streamed = await last(page).locator('.body').innerText();
  await page.reload();
  expect(await last(page).locator('.body').innerText()).toBe(streamed);
  await proxy.stop();
});

test('a gateway that is killed in the middle of an answer comes back with a clear end', async ({ page, provider, gateway, traps }) => {
  traps.allow(/./); // The connection is lost on purpose.
  const gate = new Gate();
  provider.answer = () => ['The first words\n\n', gate.after('and the rest')];
  const own = await Gateway.start({ config: gateway.options.config, port: await portToKeep() });
  await page.goto(own.url);
  await send(page, 'long');
  await page.waitForURL('**/chat/**');
  await expect(last(page)).toContainText('The first words');
  await page.locator('#composer textarea').fill('half a thought');
  await own.end({ kill: true });
  await expect(page.locator('#connection')).toContainText('Connection lost');
  const next = await own.restart();
  await expect(page.locator('#connection')).toBeHidden();
  await expect(page.locator('#ending')).toContainText('the gateway stopped before the response was complete');
  await expect(page.locator('#composer textarea')).toHaveValue('half a thought');
  gate.open();
  provider.answer = () => ['The whole answer'];
  await page.locator('#ending').getByRole('button', { name: /Retry/ }).click();
  await expect(last(page)).toContainText('The whole answer');
  await idle(page);
  await next.stop();
});

test('little moves while an answer with calls and an image arrives', async ({ page, provider }) => {
  await page.addInitScript(() => {
    globalThis.shifts = [];
    new PerformanceObserver((list) => {
      for (const { value, hadRecentInput, sources } of list.getEntries()) {
        if (!hadRecentInput) globalThis.shifts.push([value, ...sources.map(({ node }) => node?.outerHTML?.slice(0, 80))]);
      }
    }).observe({ type: 'layout-shift', buffered: true });
  });
  const long = 'Some more words about it.\n\n'.repeat(30);
  provider.answer = (request) => (resultsOf(request).length ? ['# Done\n\n', ...long.match(/.{1,40}/gs)] : ['I look.\n\n', { call: ['table', {}] }, { call: ['media', {}] }]);
  await start(page, 'show it');
  await idle(page);
  await expect(card(page, 'media').locator('img')).toHaveCount(1);
  await send(page, 'and again');
  await expect(page.locator('.message.model')).toHaveCount(4);
  await idle(page);
  // The result of a call moves what is below it in its message; the text of an answer moves nothing (`module.spec.mjs`).
  const shifts = await page.evaluate(() => globalThis.shifts);
  expect(shifts.reduce((sum, [value]) => sum + value, 0), JSON.stringify(shifts)).toBeLessThan(0.1);
});

test('the terminal and the page have the same chats', async ({ page, gateway, provider }) => {
  provider.answer = (request) => [`answer to ${request.messages.at(-1).content}`];
  await gateway.run(['chat'], 'a question from the terminal\n');
  await page.goto('/');
  await page.locator('#chat-list .item', { hasText: 'a question from the terminal' }).click();
  await expect(last(page)).toContainText('answer to a question from the terminal');
  await send(page, 'and one from the page');
  await expect(page.locator('.message.model')).toHaveCount(2);
  await idle(page);
  const shown = await gateway.run(['conversations', 'show', new URL(page.url()).pathname.split('/').at(-1)]);
  expect(shown).toContain('a question from the terminal');
  expect(shown).toContain('answer to and one from the page');
});

test('eight tabs stay usable: only the visible one has a stream', async ({ page, provider, context }) => {
  provider.answer = () => ['ok'];
  await start(page, 'first');
  await idle(page);
  const tabs = [];
  for (let count = 0; count < 7; count += 1) {
    const tab = await context.newPage();
    await tab.goto(page.url());
    await tab.evaluate(() => {
      Object.defineProperty(document, 'hidden', { value: true, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    });
    tabs.push(tab);
  }
  await send(page, 'second');
  await expect(page.locator('.message')).toHaveCount(4);
  await idle(page);
  await tabs[0].evaluate(() => {
    Object.defineProperty(document, 'hidden', { value: false });
    document.dispatchEvent(new Event('visibilitychange'));
  });
  await expect(tabs[0].locator('.message')).toHaveCount(4);
  for (const tab of tabs) await tab.close();
});

test('right-to-left and wide texts, and an input method, work', async ({ page, provider }) => {
  provider.answer = () => ['مرحبا بالعالم\n\n日本語のテキスト 👩‍🔬'];
  await page.goto('/');
  const composer = page.locator('#composer textarea');
  await composer.fill('こんにちは');
  await composer.dispatchEvent('keydown', { key: 'Enter', isComposing: true, keyCode: 229 });
  await expect(page).toHaveURL(/\/$/);
  await composer.press('Enter');
  await page.waitForURL('**/chat/**');
  await idle(page);
  await expect(last(page)).toContainText('👩‍🔬');
  const word = 'w'.repeat(10_000);
  provider.answer = () => [word];
  await send(page, 'long');
  await expect(last(page)).toContainText(word);
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
});

test('hostile texts are displayed and do nothing', async ({ page, provider }) => {
  provider.answer = (request) => (resultsOf(request).length ? [HOSTILE.join('\n\n')] : [{ thinking: HOSTILE.join(' ') }, HOSTILE[0], { call: ['hostile', Object.fromEntries(HOSTILE.map((text) => [text, text]))] }]);
  await start(page, HOSTILE.join('\n\n'));
  await idle(page);
  await expect(last(page)).toContainText('<img src=x onerror=alert(1)>');
  await expect(card(page, 'hostile')).toHaveAttribute('data-state', 'done');
  await page.evaluate(() => document.querySelectorAll('.message details').forEach((details) => { details.open = true; }));
  await expect(page.locator('.message :is(script, iframe, object, embed, base, form:not([action^="/-/"]), meta, link, style, template)')).toHaveCount(0);
  await expect(page.locator('.message img')).toHaveCount(0);
  const links = await page.locator('.message a').evaluateAll((all) => all.map((link) => link.getAttribute('href')));
  expect(links.filter((href) => !/^(https:\/\/example\.com|\/(tools|chat|-)\/)/.test(href))).toEqual([]);
  await page.getByRole('button', { name: 'More' }).click();
  await page.locator('#chat-menu [name=title]').fill(HOSTILE.slice(0, 5).join(' '));
  await page.getByRole('button', { name: 'Rename' }).click();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('<script>');
  await page.reload();
  await expect(page.getByRole('heading', { level: 1 })).toContainText('<script>');
  await page.goto(`/?q=${encodeURIComponent(HOSTILE[0])}`);
  await expect(page.locator('#chat-list .hit').first()).toContainText('<script>');
});

test.describe('without JavaScript', () => {
  test.use({ javaScriptEnabled: false });

  test('one can ask and decide', async ({ page, provider }) => {
    provider.answer = calling(['delete_file', { path: '/a' }]);
    await page.goto('/');
    await page.locator('#composer textarea').fill('delete');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.waitForURL('**/chat/**');
    await expect(async () => {
      await page.reload();
      await expect(card(page, 'delete_file')).toHaveAttribute('data-state', 'waiting', { timeout: 1 });
    }).toPass();
    await card(page, 'delete_file').getByRole('button', { name: /^Run once/ }).click();
    await expect(async () => {
      await page.reload();
      await expect(page.getByRole('button', { name: 'Send' })).toBeVisible({ timeout: 1 });
    }).toPass();
    await expect(card(page, 'delete_file')).toContainText('deleted');
  });
});
