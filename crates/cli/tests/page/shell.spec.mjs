// The frame that all views have in common: weight, keys, palette, theme, sign-in, connection, phones, no JavaScript.
import { Gateway } from './support/gateway.mjs';
import { pressSequence } from './support/keyboard.mjs';
import { checkLooks, resize, smallTargets, WIDTHS } from './support/looks.mjs';
import { Proxy } from './support/proxy.mjs';
import { expect, test } from './support/test.mjs';

/** The paths of the views, as the rail lists them. */
async function views(page) {
  await page.goto('/');
  return page.locator('.rail-link').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
}

test('the first page is small and asks no other host', async ({ page }, info) => {
  const sizes = {};
  const bodies = [];
  page.on('response', (response) => {
    if (response.url().includes('/-/events') || response.status() >= 300) return;
    bodies.push(response.body().then((body) => { sizes[new URL(response.url()).pathname] = body.length; }));
  });
  await page.goto('/');
  await Promise.all(bodies);
  const total = Object.values(sizes).reduce((sum, size) => sum + size, 0);
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
  info.annotations.push({ type: 'figures', description: `${total} bytes, first paint after ${Math.round(paint)} ms` });
  console.log(`the first page has ${total} bytes: ${JSON.stringify(sizes)}; first paint after ${Math.round(paint)} ms`);
  expect(total).toBeLessThanOrEqual(150 * 1024);
});

test('the keys are listed, and lead to the views', async ({ page }) => {
  const paths = await views(page);
  await page.locator('#main').focus();
  await page.keyboard.press('?');
  await expect(page.locator('#keys')).toBeVisible();
  const rows = await page.locator('#keys tr[data-keys^="g "]').evaluateAll((all) => all.map((row) => [row.dataset.keys, row.dataset.do.slice('go:'.length)]));
  await page.keyboard.press('Escape');
  await expect(page.locator('#keys')).toBeHidden();
  for (const path of paths) {
    const [keys] = rows.find(([, target]) => target === path);
    await page.goto(paths.find((other) => other !== path));
    await page.locator('#main').focus();
    await pressSequence(page, keys.split(' '), (url) => url.pathname === path);
  }
});

test('the keyboard reaches the content first, and the focus returns from a dialog', async ({ page }) => {
  await page.goto('/tools');
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('Tab');
  const skip = page.getByRole('link', { name: 'Skip to the content' });
  await expect(skip).toBeFocused();
  await expect(skip).toBeInViewport();
  await page.keyboard.press('Enter');
  await expect(page.locator('#main')).toBeFocused();
  const keys = page.locator('.rail [data-opens=keys]');
  await keys.focus();
  await page.keyboard.press('Enter');
  await expect(page.locator('#keys')).toBeVisible();
  await page.keyboard.press('Escape');
  await expect(keys).toBeFocused();
});

test('the palette finds a view', async ({ page }) => {
  await page.goto('/tools');
  await page.keyboard.press('Control+k');
  await expect(page.locator('#palette')).toBeVisible();
  await expect(page.locator('#palette li').first()).toBeVisible();
  await page.keyboard.type('traffic');
  await expect(page.locator('#palette li').first()).toContainText('Traffic');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/traffic');
});

test('a theme is kept, and the system decides without one', async ({ page }) => {
  const background = () => page.evaluate(() => getComputedStyle(document.body.parentElement).backgroundColor);
  const [light, dark] = ['rgb(247, 247, 244)', 'rgb(20, 23, 22)'];
  await page.emulateMedia({ colorScheme: 'light' });
  await page.goto('/tools');
  expect(await background()).toBe(light);
  const choose = async (theme) => {
    const stored = page.waitForResponse((response) => response.url().endsWith('/-/theme'));
    await page.locator('.rail [name=theme]').selectOption(theme);
    await stored;
  };
  await choose('dark');
  expect(await background()).toBe(dark);
  await page.reload();
  expect(await background()).toBe(dark);
  await choose('system');
  expect(await background()).toBe(light);
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.reload();
  expect(await background()).toBe(dark);
});

test('the link for administrators works once, and leaves no token behind', async ({ page, traps }) => {
  const gateway = await Gateway.start();
  await page.goto(`${gateway.url}/tools`);
  await expect(page.locator('.rail-foot')).not.toContainText('admin');
  await page.goto(gateway.adminLink);
  await page.waitForURL((url) => url.pathname !== '/sign-in');
  await expect(page.locator('.rail-foot')).toContainText('admin');
  expect(page.url()).not.toContain('token');
  expect(await page.evaluate(() => document.cookie)).toBe('');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await expect(page.locator('.rail-foot')).not.toContainText('admin');
  traps.allow(/401/);
  await page.goto(gateway.adminLink);
  await expect(page.locator('.error')).toContainText('already used');
  expect(page.url()).not.toContain('token');
  await gateway.stop(page);
});

test('a lost connection is told and comes back by itself', async ({ page, gateway, traps }) => {
  traps.allow(/net::ERR_/);
  const proxy = await Proxy.start(gateway.url);
  const streams = [];
  page.on('request', (request) => request.url().includes('/-/events') && streams.push(new URL(request.url()).searchParams.get('after')));
  const opened = page.waitForResponse((response) => response.url().includes('/-/events'));
  await page.goto(`${proxy.url}/traffic`);
  await opened;
  proxy.disconnect();
  const bar = page.locator('#connection');
  await expect(bar).toContainText('Connection lost');
  const before = await page.locator('h1').boundingBox();
  await expect(bar.getByRole('button', { name: 'try now' })).toBeVisible();
  proxy.restore();
  await bar.evaluate((element) => element.lastElementChild?.click());
  await expect(bar).toBeHidden();
  expect(await page.locator('h1').boundingBox()).toEqual(before);
  expect(streams.length).toBeGreaterThan(1);
  expect(streams.every((after) => /^[\w]+-\d+$/.test(after))).toBe(true);
  await proxy.stop();
});

test('each view fits each screen and has no barrier', async ({ page }) => {
  for (const path of await views(page)) {
    await page.goto(path);
    await checkLooks(page, `view${path.replaceAll('/', '-')}`);
  }
});

test('targets on a phone are large enough', async ({ page }) => {
  const paths = await views(page);
  await resize(page, WIDTHS.phone);
  for (const path of paths) {
    await page.goto(path);
    expect(await smallTargets(page), path).toEqual([]);
  }
});

test('nothing moves for those who want no motion', async ({ page }) => {
  const paths = await views(page);
  await page.emulateMedia({ reducedMotion: 'reduce' });
  for (const path of paths) {
    await page.goto(path);
    expect(await page.evaluate(() => document.getAnimations().length), path).toBe(0);
  }
});

test('forced colors and paper', async ({ page }) => {
  for (const path of await views(page)) {
    await page.goto(path);
    await page.emulateMedia({ forcedColors: 'active' });
    await page.screenshot({ path: `${process.env.PAGE_TEST_SCREENSHOTS}/view${path.replaceAll('/', '-')}-forced-colors.png` });
    await page.emulateMedia({ forcedColors: 'none', media: 'print' });
    await expect(page.locator('.rail')).toBeHidden();
    await expect(page.locator('h1')).toBeVisible();
    await page.emulateMedia({ media: 'screen' });
  }
});

test('an unknown path is a page that says so', async ({ page, traps }) => {
  traps.allow(/404/);
  const response = await page.goto('/tools/nobody/nothing');
  expect(response.status()).toBe(404);
  await expect(page.locator('h1')).toBeVisible();
  await expect(page.locator('.error')).toBeVisible();
  await checkLooks(page, 'unknown-path');
});

test.describe('without JavaScript', () => {
  test.use({ javaScriptEnabled: false });

  test('each view has its content, and the theme can be changed', async ({ page }) => {
    for (const path of await views(page)) {
      const response = await page.goto(path);
      expect(response.status(), path).toBe(200);
      await expect(page.locator('h1')).toBeVisible();
    }
    await page.locator('.rail [name=theme]').selectOption('dark');
    await page.locator('.rail form').filter({ has: page.locator('[name=theme]') }).getByRole('button').click();
    await expect(page.locator('html')).toHaveAttribute('data-theme', 'dark');
  });

  test('the token can be pasted', async ({ page }) => {
    const gateway = await Gateway.start();
    await page.goto(`${gateway.url}/sign-in`);
    await page.locator('[name=key]').fill(new URL(gateway.adminLink).hash.slice('#token='.length));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await expect(page.locator('.rail-foot')).toContainText('admin');
    await gateway.stop(page);
  });
});

test('the first start offers three things to do, and the tools in all dialects', async ({ page }) => {
  await page.goto('/');
  await expect(page.locator('#composer textarea')).toBeFocused();
  await expect(page.locator('.note')).toContainText('not a language model');
  await expect(page.locator('.start .button')).toHaveText([/^What is the weather in Paris/, 'See get_weather in every dialect', 'Paste a tool']);
  await expect(page.locator('.matrix tbody tr')).toHaveCount(2);
  await expect(page.locator('.matrix tbody tr').first().locator('td')).toHaveCount(17);
  for (const [name, target] of [['See get_weather in every dialect', '**/dialects/get_weather'], ['Paste a tool', '**/dialects/try'], ['Add a server', '**/servers/new']]) {
    await page.goto('/');
    await page.getByRole('link', { name }).click();
    await page.waitForURL(target);
  }
  await page.goto('/');
  await page.locator('.matrix tbody a').first().click();
  await page.waitForURL('**/dialects/*?to=*');
});
