// The module `page.js` alone, with a page and events that a mock server sends.
import { test as base, expect } from './support/test.mjs';
import { Mock } from './support/mock.mjs';

const test = base.extend({
  content: [{}, { option: true }],
  mock: async ({ content }, use) => {
    const mock = await Mock.start(content);
    await use(mock);
    await mock.stop();
  },
  baseURL: async ({ mock }, use) => use(mock.url),
});

/** Opens the mock's page and waits for its stream. */
async function open(page, mock, path = '/') {
  await page.goto(path);
  await expect.poll(() => mock.open).toBe(1);
}

const message = (position, text = '', kind = 'model') =>
  `<article class="message ${kind}" id="m${position}"><div class="body">${text && `<div class="block" id="m${position}-0"><p>${text}</p></div>`}</div></article>`;

/** The last message ends at the composer, or above it. */
const expectAtEnd = (page) => expect.poll(() => page.evaluate(() => {
  const [last, composer] = [document.querySelector('#messages').lastElementChild, document.querySelector('#composer')];
  return last.getBoundingClientRect().bottom <= composer.getBoundingClientRect().top + 1;
})).toBe(true);

/**
 * Scrolls up as a reader does. Not with the wheel: nothing says when its animation has ended, and a busy browser may drop a turn.
 * Returns the position, which nothing may change from here on.
 */
async function scrollUp(page, pixels) {
  const top = await page.evaluate((distance) => {
    scrollBy(0, -distance);
    return scrollY;
  }, pixels);
  // The button says that the page has noticed.
  await expect(page.locator('#jump')).toBeVisible();
  return top;
}

/** Returns when the observers of the page know whether an element is in view: they are told before a newer one. */
const isObserved = (page, selector) => page.evaluate((wanted) => new Promise((resolve) => {
  new IntersectionObserver((_, observer) => {
    observer.disconnect();
    resolve();
  }).observe(document.querySelector(wanted));
}), selector);

test.describe('events', () => {
  test.use({ content: { main: `<div id="part"><p id="old">old</p></div><div class="messages" id="messages">${message(1)}</div>` } });

  test('put replaces an element or inserts one, drop removes it', async ({ page, mock }) => {
    await open(page, mock);
    mock.emit('put', { id: 'old', html: '<p id="old">first</p>', in: null, before: null });
    mock.emit('put', { id: 'old', html: '<p id="old">second</p>' });
    mock.emit('put', { id: 'new', in: 'part', before: 'old', html: '<p id="new">new</p>' });
    await expect(page.locator('#part p')).toHaveText(['new', 'second']);
    mock.emit('drop', { id: 'new' });
    await expect(page.locator('#part p')).toHaveText(['second']);
  });

  test('an open block may change; a settled one does not', async ({ page, mock }) => {
    await open(page, mock);
    mock.emit('open', { m: 1, n: 0, html: '<div class="block" id="m1-0"><p>Hel</p></div>' });
    await expect(page.locator('#m1-0')).toHaveText('Hel');
    mock.emit('settle', { m: 1, n: 0, html: '<div class="block" id="m1-0"><p>Hello</p></div>' });
    mock.emit('open', { m: 1, n: 0, html: '<div class="block" id="m1-0"><p>Hell</p></div>' });
    mock.emit('open', { m: 1, n: 1, html: '<div class="block" id="m1-1"><p>next</p></div>' });
    await expect(page.locator('#m1 .block')).toHaveText(['Hello', 'next']);
  });

  test('grow appends once; a gap asks for everything again', async ({ page, mock }) => {
    await open(page, mock);
    mock.emit('open', { m: 1, n: 0, html: '<div class="block" id="m1-0" data-length="2"><pre tabindex="0"><code>a\n</code></pre></div>' });
    const grow = { m: 1, n: 0, at: 2, to: 4, html: 'b\n' };
    mock.emit('grow', grow);
    mock.emit('grow', grow);
    await expect(page.locator('#m1-0 code')).toHaveText('a\nb\n');
    mock.emit('grow', { m: 1, n: 0, at: 6, to: 8, html: 'd\n' });
    await expect.poll(() => mock.streams).toEqual(['boot1-1', '0-0']);
    await expect(page.locator('#m1-0 code')).toHaveText('a\nb\n');
  });

  test('a part with the focus changes when the focus leaves it', async ({ page, mock }) => {
    await open(page, mock);
    mock.emit('put', { id: 'old', html: '<p id="old"><input id="field" aria-label="field"></p>' });
    await page.locator('#field').pressSequentially('typed');
    mock.emit('put', { id: 'old', html: '<p id="old">changed</p>' });
    mock.emit('put', { id: 'new', in: 'part', html: '<p id="new">arrived</p>' });
    await expect(page.locator('#new')).toHaveText('arrived');
    await expect(page.locator('#field')).toHaveValue('typed');
    await page.locator('#main').focus();
    await expect(page.locator('#old')).toHaveText('changed');
  });

  test('selected text stays until it is no longer selected', async ({ page, mock }) => {
    await open(page, mock);
    await page.locator('#old').evaluate((element) => getSelection().selectAllChildren(element));
    mock.emit('put', { id: 'old', html: '<p id="old">changed</p>' });
    mock.emit('put', { id: 'new', in: 'part', html: '<p id="new">arrived</p>' });
    await expect(page.locator('#part p')).toHaveText(['old', 'arrived']);
    await page.evaluate(() => getSelection().removeAllRanges());
    await expect(page.locator('#part p')).toHaveText(['changed', 'arrived']);
  });

  test('typed text and folded parts survive a change', async ({ page, mock }) => {
    const html = (note) => `<form id="old"><input name="text" value="a" aria-label="text"><details id="fold"><summary>more</summary>${note}</details></form>`;
    await open(page, mock);
    mock.emit('put', { id: 'old', html: html('one') });
    await page.locator('[name=text]').first().fill('typed');
    await page.locator('#fold summary').click();
    await page.locator('#main').focus();
    mock.emit('put', { id: 'old', html: html('two') });
    await expect(page.locator('#fold')).toContainText('two');
    await expect(page.locator('#fold')).toHaveAttribute('open', '');
    await expect(page.locator('#old [name=text]')).toHaveValue('typed');
  });

  test('typed text stays in its own form, also if another one has a field of this name', async ({ page, mock }) => {
    const form = (id) => `<form id="${id}"><input name="text" value="a" aria-label="text"></form>`;
    await open(page, mock);
    mock.emit('put', { id: 'old', html: `<div id="old">${form('one')}${form('two')}</div>` });
    await page.locator('#two [name=text]').fill('typed');
    await page.locator('#main').focus();
    mock.emit('put', { id: 'old', html: `<div id="old">${form('zero')}${form('one')}${form('two')}</div>` });
    await expect(page.locator('#old form')).toHaveCount(3);
    expect(await page.locator('#old [name=text]').evaluateAll((all) => all.map(({ value }) => value))).toEqual(['a', 'a', 'typed']);
  });

  test('reset replaces everything in an element, or fetches it', async ({ page, mock }) => {
    await open(page, mock);
    mock.emit('reset', { in: 'part', html: '<p id="old">whole</p>' });
    await expect(page.locator('#part p')).toHaveText(['whole']);
    mock.emit('reset', { in: 'main' });
    await expect(page.locator('#part p')).toHaveText(['old']);
  });

  test('a part in use survives a reset until it is left', async ({ page, mock }) => {
    await open(page, mock);
    mock.emit('put', { id: 'old', html: '<p id="old"><input id="field" aria-label="field"></p>' });
    await page.locator('#field').pressSequentially('typed');
    mock.emit('reset', { in: 'part', html: '<p id="first">first</p><p id="old">new</p><p id="last">last</p>' });
    await expect(page.locator('#part > p')).toHaveText(['first', '', 'last']);
    await expect(page.locator('#field')).toHaveValue('typed');
    await expect(page.locator('#field')).toBeFocused();
    await page.locator('#main').focus();
    await expect(page.locator('#part > p')).toHaveText(['first', 'new', 'last']);
  });

  test('title, mark and announcements', async ({ page, mock }) => {
    await open(page, mock);
    mock.emit('title', { text: '? delete_file', dot: true });
    mock.emit('say', { text: '2 calls' });
    mock.emit('say', { text: 'delete_file waits for your decision', urgent: true });
    await expect(page).toHaveTitle('? delete_file');
    await expect(page.locator('link[rel=icon]')).toHaveAttribute('href', /icon-dot\.svg$/);
    await expect(page.locator('#dot-chat')).toBeVisible();
    await expect(page.locator('#say')).toHaveText('2 calls');
    await expect(page.locator('#alert')).toHaveText('delete_file waits for your decision');
    mock.emit('title', { text: 'Chat', dot: false });
    await expect(page.locator('link[rel=icon]')).toHaveAttribute('href', /icon\.svg$/);
  });

  test('HTML of an event runs nothing', async ({ page, mock, traps }) => {
    traps.allow(/script-src-attr|inline event handler/);
    await open(page, mock);
    mock.emit('put', { id: 'old', html: '<p id="old"><script>globalThis.ran = 1</script><img src="/-/assets/x/icon.svg" onload="globalThis.ran = 2">text</p>' });
    await expect(page.locator('#old')).toHaveText(/text$/);
    await page.locator('#old img').evaluate((image) => image.decode());
    expect(await page.evaluate(() => globalThis.ran)).toBeUndefined();
  });
});

test.describe('the stream', () => {
  test.use({ content: { main: '<p id="text">text</p>' } });

  test('resumes after the last event when the connection breaks', async ({ page, mock, traps }) => {
    traps.allow(/net::ERR_/);
    await open(page, mock);
    const last = mock.emit('put', { id: 'text', html: '<p id="text">before</p>' });
    await expect(page.locator('#text')).toHaveText('before');
    mock.closeStreams();
    await expect.poll(() => mock.streams).toEqual(['boot1-1', last]);
    mock.emit('put', { id: 'text', html: '<p id="text">after</p>' });
    await expect(page.locator('#text')).toHaveText('after');
  });

  test('is closed while the tab is hidden', async ({ page, mock }) => {
    await page.addInitScript(() => Object.defineProperty(document, 'hidden', { get: () => globalThis.isHidden ?? false }));
    await open(page, mock);
    const show = (isHidden) => page.evaluate((value) => {
      globalThis.isHidden = value;
      document.dispatchEvent(new Event('visibilitychange'));
    }, isHidden);
    await show(true);
    await expect.poll(() => mock.open).toBe(0);
    await show(false);
    await expect.poll(() => mock.open).toBe(1);
  });

  test('is opened again after 40 s of silence', async ({ page, mock }) => {
    await page.clock.install();
    await open(page, mock);
    await expect.poll(() => page.evaluate(() => document.readyState)).toBe('complete');
    await expect(async () => {
      await page.clock.runFor(41_000);
      expect(mock.streams.length).toBeGreaterThan(1);
    }).toPass();
  });

  test('a new version is told, and nothing reloads by itself', async ({ page, mock }) => {
    await open(page, mock);
    mock.content = { ...mock.content, build: 'build2' };
    mock.emit('reset', { in: 'main' });
    await expect(page.locator('#connection')).toBeVisible();
    await expect(page.locator('#connection')).toContainText('The gateway has a new version');
    await page.locator('#connection button').click();
    await expect(page.locator('#connection')).toBeHidden();
  });
});

const CARD = `<section class="call" id="call-1" data-state="waiting"><div class="call-head" id="call-1-head"><span class="call-name">delete_file</span></div>
  <form class="call-question" method="post" action="/-/decide" data-live><input name="path" value="/a" aria-label="path"><div class="error" hidden></div>
  <div class="actions"><button name="decision" value="once" data-key="y" data-guard><span data-changed="Run with your changes">Run once</span></button></div></form></section>`;
const COMPOSER = `<form class="composer" id="composer" method="post" action="/-/send" data-live data-reset enctype="multipart/form-data"><div class="composer-box"><div class="error" hidden></div>
  <div class="attachments" id="attachments"></div><textarea name="text" aria-label="Message"></textarea>
  <input type="file" class="unseen" data-attach="/-/attachments" data-limit="1000" aria-label="file"><button type="button" data-pick>Attach</button><button>Send</button></div></form>`;

test.describe('keys', () => {
  test.use({
    content: {
      keys: [['g s', 'go:/servers'], ['?', 'open:keys'], ['Ctrl+k', 'open:palette'], ['/', 'focus:#field'], ['Shift+n', 'click:#more'], ['x', 'click:#swap']],
      main: `<input id="field" aria-label="field"><button id="more" data-opens="keys">more</button><button id="plain" data-key="p" data-copy-text="copied text">copy</button>
        <figure class="code"><figcaption><button id="in-figure" data-copy="code">copy</button></figcaption><pre tabindex="0"><code>let a = 1;</code></pre></figure>
        <div class="gap">${'<p>line</p>'.repeat(80)}</div><div class="messages" id="messages">${CARD}</div>${COMPOSER}`,
    },
  });

  test('a sequence goes to a view, if its keys follow each other', async ({ page, mock }) => {
    await page.clock.install();
    await open(page, mock);
    await page.clock.pauseAt(Date.now() + 3_600_000);
    await page.keyboard.press('g');
    await page.clock.runFor(1100);
    await page.keyboard.press('s');
    expect(new URL(page.url()).pathname).toBe('/');
    await page.keyboard.press('g');
    await page.keyboard.press('s');
    await page.waitForURL('**/servers');
  });

  test('letters in a field are text, and can be switched off', async ({ page, mock }) => {
    mock.routes['/-/palette.json'] = () => ({ entries: [] });
    await open(page, mock);
    await page.keyboard.press('/');
    await page.keyboard.type('gs?');
    await expect(page.locator('#field')).toHaveValue('gs?');
    await page.locator('#main').focus();
    await page.keyboard.press('Shift+N');
    await expect(page.locator('#keys')).toBeVisible();
    await page.locator('#letter-keys').uncheck();
    await page.keyboard.press('Escape');
    await expect(page.locator('#keys')).toBeHidden();
    await page.keyboard.press('?');
    await page.keyboard.press('Control+k');
    await expect(page.locator('#palette')).toBeVisible();
    await expect(page.locator('#keys')).toBeHidden();
    await page.reload();
    await expect(page.locator('#letter-keys')).not.toBeChecked();
  });

  test('a decision needs a card in view that was seen for 400 ms', async ({ page, mock }) => {
    mock.routes['/-/decide'] = () => ({ events: [{ type: 'put', id: 'call-1', html: '<section class="call" id="call-1" data-state="running">runs</section>' }] });
    await page.clock.install();
    await open(page, mock);
    await page.clock.pauseAt(Date.now() + 3_600_000);
    await page.evaluate(() => scrollTo(0, 0));
    await isObserved(page, '#call-1 button');
    await page.keyboard.press('y');
    await expect(page.locator('#call-1')).toBeInViewport();
    await page.keyboard.press('y');
    expect(mock.requests).toEqual([]);
    // The page notices in its next frames that the card is in view; then its clock goes on.
    await expect(async () => {
      await page.clock.runFor(450);
      await page.keyboard.press('y');
      expect(mock.requests.length).toBe(1);
    }).toPass();
    expect(new URLSearchParams(mock.requests[0].body).get('decision')).toBe('once');
    expect(mock.requests[0].accept).toBe('application/json');
    await expect(page.locator('#call-1')).toHaveText('runs');
  });

  test('a decision is not taken by what is typed in the composer', async ({ page, mock }) => {
    await open(page, mock);
    await page.locator('#composer textarea').pressSequentially('yyy');
    await expect(page.locator('#composer textarea')).toHaveValue('yyy');
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 3_600_000);
    await page.locator('#composer textarea').pressSequentially('y');
    await page.locator('#main').focus();
    await page.keyboard.press('y');
    expect(mock.requests).toEqual([]);
  });

  test('an answer to a decision does not undo newer changes of the stream', async ({ page, mock }) => {
    const card = (state) => `<section class="call" id="call-1" data-state="${state}">${state}</section>`;
    mock.routes['/-/decide'] = async () => {
      mock.emit('put', { id: 'call-1', html: card('done') });
      mock.emit('put', { id: 'field', html: '<input id="field" aria-label="new field">' });
      await expect(page.getByLabel('new field')).toBeAttached();
      return { events: [{ type: 'put', id: 'call-1', html: card('running') }] };
    };
    await open(page, mock);
    await page.locator('#call-1 button').click();
    await expect(page.locator('#call-1')).toHaveText('done');
    await expect(page.locator('#composer textarea')).toBeFocused();
  });

  test('a card whose decision was sent changes although its button has the focus', async ({ page, mock }) => {
    mock.routes['/-/decide'] = () => ({ events: [] });
    await open(page, mock);
    await page.locator('#call-1 button').click();
    await expect(page.locator('#call-1 form')).toHaveAttribute('data-sent');
    mock.emit('put', { id: 'call-1', html: '<section class="call" id="call-1" data-state="done">done</section>' });
    await expect(page.locator('#call-1')).toHaveText('done');
    await expect(page.locator('#composer textarea')).toBeFocused();
  });

  test('edited arguments rename the button', async ({ page, mock }) => {
    await open(page, mock);
    await page.locator('[name=path]').fill('/b');
    await expect(page.locator('#call-1 button')).toHaveText('Run with your changes');
    await page.locator('[name=path]').fill('/a');
    await expect(page.locator('#call-1 button')).toHaveText('Run once');
  });

  test('copy says so', async ({ page, mock, context }) => {
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await page.clock.install();
    await open(page, mock);
    await page.clock.pauseAt(Date.now() + 3_600_000);
    await page.keyboard.press('p');
    await expect(page.locator('#plain')).toHaveAttribute('data-done', 'copied');
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('copied text');
    await page.clock.runFor(1600);
    await expect(page.locator('#plain')).not.toHaveAttribute('data-done', 'copied');
    await page.locator('#in-figure').click();
    await expect(page.locator('#in-figure')).toHaveAttribute('data-done', 'copied');
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe('let a = 1;');
  });

  test('the palette searches, moves and goes', async ({ page, mock }) => {
    mock.routes['/-/palette.json'] = ({ query }) => ({ entries: query.q === 'ser' ? [{ label: 'Server <b>', kind: 'server', href: '/servers' }] : [{ label: 'Chat', kind: 'view', href: '/' }, { label: 'Keys', kind: 'action', click: '#more' }] });
    await open(page, mock);
    await page.keyboard.press('Control+k');
    await expect(page.locator('#palette li')).toHaveText([/Chat/, /Keys/]);
    await page.keyboard.press('ArrowDown');
    await expect(page.locator('#palette li').nth(1)).toHaveAttribute('aria-selected', 'true');
    await page.keyboard.press('Enter');
    await expect(page.locator('#keys')).toBeVisible();
    await page.keyboard.press('Control+k');
    await page.keyboard.type('ser');
    await expect(page.locator('#palette li')).toHaveText([/Server <b>/]);
    await page.locator('#palette li').click();
    await page.waitForURL('**/servers');
  });

  test('Enter in the palette goes to what was typed, also if its entries are not there yet', async ({ page, mock }) => {
    mock.routes['/-/palette.json'] = ({ query }) => ({ entries: [query.q ? { label: 'Servers', kind: 'view', href: '/servers' } : { label: 'Chat', kind: 'view', href: '/chat' }] });
    await open(page, mock);
    await page.keyboard.press('Control+k');
    await expect(page.locator('#palette li')).toHaveText([/Chat/]);
    // No request is sent while the clock stands still.
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 3_600_000);
    await page.keyboard.type('ser');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/servers');
  });
});

test.describe('the composer', () => {
  test.use({ content: { main: `<div class="messages" id="messages">${message(1, 'text '.repeat(2000))}</div>${COMPOSER}` } });

  test('Enter sends, Shift and Enter is a line, the question goes to the top', async ({ page, mock }) => {
    mock.routes['/-/send'] = () => ({ events: [{ type: 'put', id: 'm2', in: 'messages', html: message(2, 'question', 'you') }] });
    await open(page, mock);
    const field = page.locator('#composer textarea');
    await field.pressSequentially('one');
    await field.press('Shift+Enter');
    await field.pressSequentially('two');
    await field.press('Enter');
    await expect(page.locator('#m2')).toBeInViewport();
    await expect(field).toHaveValue('');
    await expect(field).toBeFocused();
    expect(mock.requests[0].body).toContain('one\r\ntwo');
    const top = await page.locator('#m2').evaluate((element) => element.getBoundingClientRect().top);
    expect(top).toBeGreaterThan(40);
    expect(top).toBeLessThan(80);
  });

  test('Stop keeps what is typed', async ({ page, mock }) => {
    mock.routes['/-/stop'] = () => ({ events: [] });
    await open(page, mock);
    await page.locator('#composer').evaluate((form) => form.insertAdjacentElement('beforeend', Object.assign(document.createElement('button'), { id: 'stop', formAction: '/-/stop', textContent: 'Stop' })).setAttribute('data-key', 'Escape'));
    await page.locator('#composer textarea').fill('next question');
    await page.locator('#composer textarea').press('Escape');
    await expect.poll(() => mock.requests.map(({ path }) => path)).toEqual(['/-/stop']);
    await expect(page.locator('#composer textarea')).toHaveValue('next question');
  });

  test('Enter that ends a composition sends nothing', async ({ page, mock }) => {
    mock.routes['/-/send'] = () => ({ events: [] });
    await open(page, mock);
    const field = page.locator('#composer textarea');
    await field.fill('にほん');
    await field.dispatchEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true });
    await field.dispatchEvent('keydown', { key: 'Enter', keyCode: 229, bubbles: true });
    expect(mock.requests).toEqual([]);
    await field.press('Enter');
    await expect(field).toHaveValue('');
    expect(mock.requests.length).toBe(1);
  });

  test('a question goes to the top also if the stream sent it before the reply', async ({ page, mock }) => {
    await page.addInitScript(() => {
      const { addEventListener } = EventSource.prototype;
      EventSource.prototype.addEventListener = function listen(type, action) {
        addEventListener.call(this, type, (event) => {
          action(event);
          globalThis.received = event.lastEventId;
        });
      };
    });
    const put = { id: 'm2', in: 'messages', html: message(2, 'question', 'you') };
    mock.routes['/-/send'] = async () => {
      // Later than the request, and less than a frame.
      await page.clock.runFor(5);
      const id = mock.emit('put', put);
      await expect.poll(() => page.evaluate(() => globalThis.received)).toBe(id);
      return { events: [{ type: 'put', ...put }] };
    };
    // The clock stands still, so what the stream sends waits for the next frame.
    await page.clock.install();
    await open(page, mock);
    await page.clock.pauseAt(Date.now() + 3_600_000);
    await page.locator('#composer textarea').fill('question');
    await page.locator('#composer textarea').press('Enter');
    await expect(page.locator('#composer textarea')).toHaveValue('');
    await expect.poll(() => page.locator('#m2').evaluate((element) => Math.round(element.getBoundingClientRect().top))).toBe(65);
  });

  test('why a response ended is in view, after a short one and after a long one', async ({ page, mock }) => {
    mock.content = { ...mock.content, main: mock.content.main.replace('<form class="composer"', '<div id="ending"></div>$&') };
    mock.routes['/-/send'] = () => ({ events: [{ type: 'put', id: 'm2', in: 'messages', html: message(2, 'question', 'you') }] });
    await open(page, mock);
    await page.locator('#composer textarea').fill('question');
    await page.locator('#composer textarea').press('Enter');
    await expect(page.locator('#m2')).toBeInViewport();
    const end = (reason) => mock.emit('put', { id: 'ending', html: `<div id="ending">${reason && `<p>${reason}</p>`}</div>` });
    /** Between the last message and the composer. */
    const expectInView = async (reason) => {
      await expect(page.locator('#ending')).toHaveText(reason);
      await expect.poll(() => page.evaluate(() => {
        const [before, box, composer] = ['#messages > :last-child', '#ending', '#composer'].map((each) => document.querySelector(each).getBoundingClientRect());
        return [Math.round(box.top - before.bottom), box.bottom <= composer.top + 1];
      })).toEqual([16, true]);
    };
    end('failed');
    await expectInView('failed');
    end('');
    mock.emit('put', { id: 'm3', in: 'messages', html: message(3, 'answer '.repeat(2000)) });
    await expect(page.locator('#m3')).toBeAttached();
    end('stopped');
    await expectInView('stopped');
  });

  test('a question of many lines goes to the top as well, and its answer is followed', async ({ page, mock }) => {
    mock.routes['/-/send'] = () => ({ events: [{ type: 'put', id: 'm2', in: 'messages', html: message(2, 'question', 'you') }] });
    await open(page, mock);
    await page.locator('#composer textarea').fill('line\n'.repeat(12));
    await page.locator('#composer textarea').press('Enter');
    await expect(page.locator('#composer textarea')).toHaveValue('');
    await expect.poll(() => page.locator('#m2').evaluate((element) => Math.round(element.getBoundingClientRect().top))).toBe(65);
    mock.emit('put', { id: 'm3', in: 'messages', html: message(3, 'answer '.repeat(2000)) });
    await expect(page.locator('#m3')).toBeAttached();
    await expectAtEnd(page);
  });

  test('an answer at the end is followed, a reader above is not moved', async ({ page, mock }) => {
    await open(page, mock);
    await expectAtEnd(page);
    const grow = (n) => mock.emit('put', { id: `m${n}`, in: 'messages', html: message(n, 'answer '.repeat(300)) });
    grow(2);
    await expect(page.locator('#m2')).toBeAttached();
    await expectAtEnd(page);
    const top = await scrollUp(page, 600);
    const lines = await page.locator('#jump').textContent();
    grow(3);
    await expect(page.locator('#m3')).toBeAttached();
    await expect(page.locator('#jump')).toContainText('lines');
    await expect(page.locator('#jump')).not.toHaveText(lines);
    expect(await page.evaluate(() => scrollY)).toBe(top);
    await page.locator('#jump').click();
    await expect(page.locator('#jump')).toBeHidden();
    await expectAtEnd(page);
    grow(4);
    await expect(page.locator('#m4')).toBeAttached();
    await expectAtEnd(page);
  });

  for (const [name, scroll] of [
    ['the wheel', (page) => page.mouse.wheel(0, -300)],
    ['a key', (page) => page.keyboard.press('PageUp')],
  ]) {
    test(`${name} ends following`, async ({ page, mock }) => {
      await open(page, mock);
      await expectAtEnd(page);
      await page.locator('#main').focus();
      await page.mouse.move(600, 300);
      await expect(async () => {
        await scroll(page);
        await expect(page.locator('#jump')).toBeVisible({ timeout: 5000 });
      }).toPass();
      mock.emit('put', { id: 'm2', in: 'messages', html: message(2, 'answer '.repeat(300)) });
      await expect(page.locator('#m2')).toBeAttached();
      await expect(page.locator('#jump')).toBeVisible();
      await expect(page.locator('#m2')).not.toBeInViewport();
    });
  }

  test('the end stays in view when the composer or the window changes its size', async ({ page, mock }) => {
    await open(page, mock);
    await expectAtEnd(page);
    const field = page.locator('#composer textarea');
    await field.fill('line\n'.repeat(8));
    await expectAtEnd(page);
    await field.fill('');
    for (const height of [500, 900]) {
      await page.setViewportSize({ width: 1280, height });
      await expect.poll(() => page.evaluate(() => innerHeight)).toBe(height);
      await expectAtEnd(page);
    }
    mock.emit('put', { id: 'm2', in: 'messages', html: message(2, 'answer '.repeat(300)) });
    await expect(page.locator('#m2')).toBeAttached();
    await expectAtEnd(page);
  });

  test('who unfolds a part at the end is not moved', async ({ page, mock }) => {
    await open(page, mock);
    mock.emit('put', { id: 'm2', in: 'messages', html: message(2, `<details id="fold"><summary>thought</summary>${'thinking '.repeat(900)}</details>`) });
    await expect(page.locator('#fold')).toBeAttached();
    await expectAtEnd(page);
    const before = await page.locator('#fold').evaluate((element) => element.getBoundingClientRect().top);
    // A click of the test library scrolls first.
    await page.locator('#fold summary').evaluate((element) => element.click());
    await expect(page.locator('#jump')).toBeVisible();
    mock.emit('put', { id: 'm3', in: 'messages', html: message(3, 'answer '.repeat(300)) });
    await expect(page.locator('#m3')).toBeAttached();
    await expect(page.locator('#jump')).toBeVisible();
    expect(await page.locator('#fold').evaluate((element) => element.getBoundingClientRect().top)).toBe(before);
  });

  test('a streamed answer shifts nothing, whether it is followed or not', async ({ page, mock }) => {
    await open(page, mock);
    await expectAtEnd(page);
    await page.evaluate(() => {
      globalThis.shifts = [];
      new PerformanceObserver((list) => globalThis.shifts.push(...list.getEntries().map(({ value, sources }) => `${value} ${sources.map(({ node }) => node?.outerHTML?.slice(0, 80))}`))).observe({ type: 'layout-shift' });
    });
    const stream = async (position) => {
      mock.emit('put', { id: `m${position}`, in: 'messages', html: message(position) });
      for (let n = 0; n < 4; n += 1) {
        for (let words = 1; words <= 30; words += 1) mock.emit('open', { m: position, n, html: `<div class="block" id="m${position}-${n}"><p>${'word '.repeat(words * 10)}</p></div>` });
        mock.emit('settle', { m: position, n, html: `<div class="block" id="m${position}-${n}"><p>${'word '.repeat(300)}</p></div>` });
        await expect(page.locator(`#m${position}-${n}[data-settled]`)).toBeAttached();
      }
    };
    await stream(2);
    await expectAtEnd(page);
    const top = await scrollUp(page, 900);
    await stream(3);
    expect(await page.evaluate(() => scrollY)).toBe(top);
    expect(await page.evaluate(() => globalThis.shifts)).toEqual([]);
  });

  test('an error is shown in its form and read aloud', async ({ page, mock }) => {
    mock.routes['/-/send'] = () => ({ error: { message: 'model `x` is unknown', hint: 'choose another model', field: 'text' } });
    await open(page, mock);
    await page.locator('#composer textarea').fill('hello');
    await page.locator('#composer textarea').press('Enter');
    await expect(page.locator('#composer .error')).toHaveText('model x is unknownchoose another model');
    await expect(page.locator('#alert')).toHaveText('model x is unknown. choose another model');
    await expect(page.locator('#composer textarea')).toHaveAttribute('aria-invalid', 'true');
    await expect(page.locator('#composer textarea')).toHaveValue('hello');
  });

  test('typed text survives a reload', async ({ page, mock }) => {
    await open(page, mock);
    await page.locator('#composer textarea').fill('half a sentence');
    await page.reload();
    await expect(page.locator('#composer textarea')).toHaveValue('half a sentence');
  });

  test('files are uploaded when they are picked, and too large ones are not', async ({ page, mock }) => {
    mock.routes['/-/attachments'] = () => ({ events: [{ type: 'put', id: 'a1', in: 'attachments', html: '<span class="chip" id="a1">stored<input type="hidden" name="attachment" value="a1"></span>' }] });
    await open(page, mock);
    const file = (name, length) => ({ name, mimeType: 'text/plain', buffer: Buffer.alloc(length, 'a') });
    await page.locator('[data-attach]').setInputFiles([file('"><img src=x>.txt', 2000)]);
    await expect(page.locator('#attachments .chip')).toContainText('"><img src=x>.txt2 KB is more than 1 KB');
    await page.locator('#attachments button').click();
    await page.locator('[data-attach]').setInputFiles([file('small.txt', 10)]);
    await expect(page.locator('#attachments .chip')).toHaveText(['stored']);
    expect(mock.requests[0].body).toContain('small.txt');
    await page.locator('#composer textarea').press('Backspace');
    await expect(page.locator('#attachments .chip')).toHaveCount(0);
  });
});

test.describe('long conversations', () => {
  const section = (index) => `<section class="window" data-from="${index * 50}" data-to="${index * 50 + 49}" data-src="/-/w/${index}" data-height="4000"></section>`;
  test.use({ content: { main: `<div class="messages" id="messages">${Array.from({ length: 40 }, (_, index) => section(index)).join('')}</div>` } });

  test('at most eight sections are filled', async ({ page, mock }) => {
    for (let index = 0; index < 40; index += 1) {
      mock.routes[`/-/w/${index}`] = () => Array.from({ length: 50 }, (_, n) => message(index * 50 + n, 'a line of text')).join('');
    }
    await open(page, mock);
    const filled = () => page.locator('.window:has(.message)').count();
    await expect.poll(filled).toBeGreaterThan(0);
    for (let step = 0; step < 20; step += 1) {
      await page.evaluate(() => scrollBy(0, -8000));
      await expect.poll(() => page.evaluate(() => {
        const near = [...document.querySelectorAll('.window')].filter((each) => each.getBoundingClientRect().bottom > 0 && each.getBoundingClientRect().top < innerHeight);
        return near.length > 0 && near.every((each) => each.firstElementChild);
      })).toBe(true);
      expect(await filled()).toBeLessThanOrEqual(8);
    }
    await page.goto('/#m1042');
    await expect(page.locator('#m1042')).toBeInViewport();
  });
});

test.describe('forms', () => {
  test.use({
    content: {
      main: `<form method="post" action="/-/call" data-live>
        <div class="form-field" data-pointer="/options" data-state="left-out"><fieldset class="states"><legend>options</legend><label><input type="radio" name="options?" value="left-out" checked>left out</label><label><input type="radio" name="options?" value="set">set</label></fieldset>
        <div class="form"><div class="form-field" data-pointer="/options/days" data-state="left-out"><fieldset class="states"><legend>days</legend><label><input type="radio" name="days?" value="left-out" checked>left out</label><label><input type="radio" name="days?" value="set">set</label></fieldset>
        <div class="form-input"><input name="days" aria-label="days"></div></div></div></div>
        <div class="error" hidden></div><button disabled hidden></button><button class="primary" name="act" value="call">Call</button></form>
        <form action="/-/search" data-live="input" data-url><input name="q" aria-label="search"></form><p id="hits">none</p>
        <p><time datetime="2026-11-19T12:00:00Z" data-format="time">x</time></p><p id="timer"></p>`,
    },
  });

  test('a reply leads only to paths of this origin', async ({ page, mock }) => {
    const locations = ['https://example.org/', '//example.org/', '/\\example.org/', '/servers'];
    mock.routes['/-/call'] = () => ({ location: locations[mock.requests.length - 1] });
    await open(page, mock);
    for (const count of locations.keys()) {
      await page.locator('[name=days]').press('Control+Enter');
      await expect.poll(() => mock.requests.length).toBe(count + 1);
      // While the form waits for its reply, it sends nothing.
      if (count + 1 < locations.length) await expect(page.locator('form').first()).not.toHaveAttribute('aria-busy', 'true');
    }
    await page.waitForURL('**/servers');
  });

  test('typing sets a value and its objects', async ({ page, mock }) => {
    mock.routes['/-/call'] = () => ({ events: [] });
    await open(page, mock);
    await page.locator('[name=days]').fill('3');
    await page.locator('[name=days]').press('Control+Enter');
    await expect.poll(() => mock.requests.length).toBe(1);
    const sent = new URLSearchParams(mock.requests[0].body);
    expect([sent.get('options?'), sent.get('days?'), sent.get('days')]).toEqual(['set', 'set', '3']);
    await page.locator('[name="days?"][value=left-out]').check();
    await expect(page.locator('[data-pointer="/options/days"]')).toHaveAttribute('data-state', 'left-out');
  });

  test('an error goes to its field', async ({ page, mock }) => {
    mock.routes['/-/call'] = () => ({ error: { message: 'not an integer', field: '/options/days' } });
    await open(page, mock);
    await page.locator('[name=days]').fill('many');
    await page.locator('[name=days]').press('Control+Enter');
    await expect(page.locator('[name=days]')).toHaveAttribute('aria-invalid', 'true');
    await expect(page.locator('[name=days]')).toBeFocused();
    expect(new URLSearchParams(mock.requests.find(({ path }) => path === '/-/call').body).get('act')).toBe('call');
  });

  test('a search follows what is typed, also in the address', async ({ page, mock }) => {
    mock.routes['/-/search'] = ({ query }) => ({ events: [{ type: 'put', id: 'hits', html: `<p id="hits">${query.q}</p>` }] });
    await open(page, mock);
    await page.getByLabel('search').pressSequentially('weather');
    await expect(page.locator('#hits')).toHaveText('weather');
    expect(new URL(page.url()).search).toBe('?q=weather');
  });

  test('times are local, timers run', async ({ page, mock }) => {
    await page.clock.setFixedTime('2026-11-19T12:00:10Z');
    await open(page, mock);
    await expect(page.locator('time')).toHaveText('12:00');
    mock.emit('put', { id: 'timer', html: '<p id="timer"><span data-wait="gpt" data-since="2026-11-19T12:00:00Z"></span></p>' });
    await expect(page.locator('#timer')).toHaveText('waiting for gpt · 10 s');
    await page.clock.setFixedTime('2026-11-19T12:01:05Z');
    await expect(page.locator('#timer')).toHaveText('waiting for gpt · 1 min 5 s');
  });
});
