// The keyboard alone.
import { expect } from './test.mjs';

/** Presses Tab until an element has the focus, which is visible and never lost. */
export async function tabTo(page, target, { back = false } = {}) {
  const element = await target.elementHandle();
  for (let step = 0; step < 200; step += 1) {
    if (await element.evaluate((wanted) => wanted === document.activeElement)) return expectVisibleFocus(page);
    await page.keyboard.press(back ? 'Shift+Tab' : 'Tab');
  }
  throw new Error(`Tab never reaches ${target}`);
}

/** Presses a sequence of keys that leads to an address. A busy machine may deliver them too late after each other; then they are pressed again. */
export async function pressSequence(page, keys, address) {
  await expect(async () => {
    for (const key of keys) await page.keyboard.press(key);
    await page.waitForURL(address, { timeout: 20_000 });
  }).toPass();
}

/** The focused element is not the page itself, is in view, and has an outline or a ring. */
export async function expectVisibleFocus(page) {
  const problem = await page.evaluate(() => {
    const focused = document.activeElement;
    if (!focused || focused === document.body) return 'nothing has the focus';
    const box = focused.getBoundingClientRect();
    if (box.bottom < 0 || box.top > innerHeight) return `not in view: ${focused.outerHTML.slice(0, 120)}`;
    const ring = (element) => element && (getComputedStyle(element).outlineStyle !== 'none' || getComputedStyle(element).boxShadow !== 'none');
    const isRinged = ring(focused) || ring(focused.closest('label,.composer-box,summary'));
    return isRinged ? null : `no ring: ${focused.outerHTML.slice(0, 120)}`;
  });
  expect(problem).toBeNull();
}
