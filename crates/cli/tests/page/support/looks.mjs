// Checks of a view in all widths and themes.
import path from 'node:path';
import AxeBuilder from '@axe-core/playwright';
import { expect } from '@playwright/test';

export const WIDTHS = {
  desktop: { width: 1280, height: 900 },
  phone: { width: 390, height: 844 },
  'small-phone': { width: 320, height: 640 },
};
export const THEMES = ['light', 'dark'];

/** Changes the size of the window, and returns when the page has it. */
export async function resize(page, size) {
  await page.setViewportSize(size);
  await expect.poll(() => page.evaluate(() => ({ width: innerWidth, height: innerHeight }))).toEqual(size);
}

/** Calls a function with the page in each width and theme. */
export async function inEachLook(page, check) {
  for (const [name, size] of Object.entries(WIDTHS)) {
    await resize(page, size);
    for (const colorScheme of THEMES) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await check(`${name}-${colorScheme}`);
    }
  }
  await resize(page, WIDTHS.desktop);
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: null });
}

/** Checks the page in each look: axe finds nothing, nothing scrolls sideways. Keeps a screenshot of each. */
export async function checkLooks(page, name) {
  await inEachLook(page, async (look) => {
    await page.screenshot({ path: path.join(process.env.PAGE_TEST_SCREENSHOTS, `${name}-${look}.png`) });
    await expectNoSidewaysScroll(page, `${name}, ${look}`);
    // The smallest phone has the same elements and colours as the other one.
    if (!look.startsWith('small')) await expectAccessible(page, `${name}, ${look}`);
  });
}

/** Checks what depends on settings of the system and on paper: forced colours, no motion, print, zoom. */
export async function checkSettings(page, name) {
  await page.emulateMedia({ forcedColors: 'active' });
  await page.screenshot({ path: path.join(process.env.PAGE_TEST_SCREENSHOTS, `${name}-forced-colors.png`) });
  // A system colour, and no tint that only the page knows.
  const colors = await page.evaluate(() => [getComputedStyle(document.body).color, getComputedStyle(document.documentElement).backgroundColor]);
  expect(colors[0], `${name}: text in forced colours`).not.toBe(colors[1]);
  await page.emulateMedia({ forcedColors: 'none', reducedMotion: 'reduce' });
  expect(await page.evaluate(() => document.getAnimations().length), `${name}: animations`).toBe(0);
  await page.emulateMedia({ reducedMotion: null, media: 'print' });
  await page.screenshot({ path: path.join(process.env.PAGE_TEST_SCREENSHOTS, `${name}-print.png`), fullPage: true });
  await expect(page.locator('.rail')).toBeHidden();
  await expect(page.locator('h1')).toBeVisible();
  await expectNoSidewaysScroll(page, `${name}, print`);
  await page.emulateMedia({ media: 'screen' });
  // A window of 1280 × 1024 at 400 %.
  const size = page.viewportSize();
  await resize(page, { width: 320, height: 256 });
  await page.screenshot({ path: path.join(process.env.PAGE_TEST_SCREENSHOTS, `${name}-zoomed.png`) });
  await expectNoSidewaysScroll(page, `${name}, zoomed`);
  await resize(page, size);
}

/** The page is as wide as the window. Code and tables scroll in themselves. */
export async function expectNoSidewaysScroll(page, name) {
  const wide = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth <= clientWidth) return [];
    const scrolls = (element) => element && element !== document.documentElement && (getComputedStyle(element).overflowX !== 'visible' || scrolls(element.parentElement));
    return [...document.body.querySelectorAll('*')]
      .filter((element) => element.getBoundingClientRect().right > clientWidth + 1 && !scrolls(element.parentElement))
      .map((element) => `${element.tagName}.${element.className}#${element.id}`);
  });
  expect(wide, `${name}: elements wider than the page`).toEqual([]);
}

/** axe finds no violation. */
export async function expectAccessible(page, name) {
  const { violations } = await new AxeBuilder({ page }).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']).analyze();
  const found = violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}\n${failureSummary}`));
  expect(found, `${name}: axe`).toEqual([]);
}

/** The buttons, links and fields that are smaller than 44 px in both directions, except for links in text. */
export async function smallTargets(page) {
  return page.evaluate(() =>
    [...document.querySelectorAll('a,button,input,select,textarea,summary')]
      .filter((element) => element.checkVisibility() && !element.matches('.skip,[type=hidden]') && !element.closest('p,li > :not(.item),td,th'))
      .filter((element) => {
        const { width, height } = (['checkbox', 'radio'].includes(element.type) ? element.closest('label') ?? element : element).getBoundingClientRect();
        return width > 1 && height > 1 && Math.max(height, 0) < 43.5;
      })
      .map((element) => element.outerHTML.slice(0, 120)),
  );
}
