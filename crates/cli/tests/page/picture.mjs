// Makes the picture of the page in the README: the demo, after its first question. `scripts/page picture` runs it.
import { chromium } from '@playwright/test';
import { Gateway } from './support/gateway.mjs';

const gateway = await Gateway.start();
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--disable-dev-shm-usage'] });
const context = await browser.newContext({ viewport: { width: 1100, height: 640 }, colorScheme: 'light', reducedMotion: 'reduce', locale: 'en-GB' });
const page = await context.newPage();
await page.goto(gateway.url);
await page.getByRole('button', { name: /weather in Paris/ }).click();
await page.waitForURL('**/chat/**');
await page.getByRole('button', { name: 'Send', exact: true }).waitFor();
await page.locator('.call[data-state=done]').nth(1).waitFor();
await page.mouse.move(0, 0);
await page.screenshot({ path: process.env.PAGE_PICTURE });
await browser.close();
await gateway.stop();
