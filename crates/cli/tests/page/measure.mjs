// Measures the page in Chromium with the real gateway, and prints the figures. `scripts/page measure` runs it.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { chromium } from '@playwright/test';
import { Gateway } from './support/gateway.mjs';
import { importLongChat, LONG_CHAT, memory, scrollThrough } from './support/long-chat.mjs';
import { Provider } from './support/provider.mjs';

const ROUNDS = 10;
const MESSAGES = 10_000;
const RATE = 60;
const SECONDS = 10;

const percentile = (values, share) => [...values].sort((one, other) => one - other)[Math.min(values.length - 1, Math.floor(values.length * share))];
const ms = (value) => `${value.toFixed(value < 100 ? 1 : 0)} ms`;
const print = (name, value) => console.log(`${name.padEnd(46)} ${value}`);

/** Starts counting frames and long tasks in a page. */
const watch = () => {
  globalThis.figures = { frames: [], tasks: [], shifts: 0 };
  let before = performance.now();
  const frame = (now) => {
    globalThis.figures.frames.push(now - before);
    before = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
  new PerformanceObserver((list) => globalThis.figures.tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask' });
  new PerformanceObserver((list) => list.getEntries().forEach(({ value }) => { globalThis.figures.shifts += value; })).observe({ type: 'layout-shift' });
};

function printFrames({ frames, tasks }, during) {
  print(`${during}: frames, p50, p95`, `${frames.length}, ${ms(percentile(frames, 0.5))}, ${ms(percentile(frames, 0.95))}`);
  const long = tasks.filter((duration) => duration > 50);
  print(`${during}: tasks over 50 ms`, long.length ? `${long.length}, the longest ${ms(Math.max(...long))}` : '0');
}

/** Measures the first paint of a page in new contexts, and what it loads. */
async function firstPaint(browser, url) {
  const paints = [];
  let weight = 0;
  let requests = 0;
  for (let round = 0; round <= ROUNDS; round += 1) {
    const context = await browser.newContext();
    const page = await context.newPage();
    const bodies = [];
    page.on('response', (response) => response.url().includes('/-/events') || bodies.push(response.body()));
    await page.goto(url);
    const paint = await page.evaluate(() => new Promise((resolve) => {
      new PerformanceObserver((list) => {
        const found = list.getEntriesByName('first-contentful-paint')[0];
        if (found) resolve(found.startTime);
      }).observe({ type: 'paint', buffered: true });
    }));
    const sizes = (await Promise.all(bodies)).map((body) => body.length);
    [weight, requests] = [sizes.reduce((sum, size) => sum + size, 0), sizes.length];
    // The first one also starts the browser's processes.
    if (round > 0) paints.push(paint);
    await context.close();
  }
  return { paints, weight, requests };
}

/** Prints the first paint, and that of a page with one word, which shows how much of it is due to the browser. */
async function firstPaints(browser, url) {
  const word = createServer((_, response) => response.setHeader('content-type', 'text/html').end('<!doctype html><title>word</title><p>word'));
  await new Promise((listening) => { word.listen(0, '127.0.0.1', listening); });
  const least = await firstPaint(browser, `http://127.0.0.1:${word.address().port}/`);
  const { paints, weight, requests } = await firstPaint(browser, url);
  word.close();
  const figures = (values) => `${ms(percentile(values, 0.5))}, ${ms(Math.max(...values))} of ${ROUNDS}`;
  print('first paint of `/` without a cache: median, worst', figures(paints));
  print('the same of a page with one word', figures(least.paints));
  print('weight of `/`', `${weight} bytes uncompressed, ${requests} requests`);
}

async function updates(browser, url, provider) {
  const words = Array.from({ length: RATE * SECONDS }, (_, index) => (index % 40 === 39 ? 'end.\n\n' : `word${index} `));
  provider.answer = () => {
    const start = performance.now();
    return words.map((word, index) => new Promise((resolve) => { setTimeout(resolve, (index * 1000) / RATE - (performance.now() - start), word); }));
  };
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.goto(url);
  await page.locator('#composer textarea').fill('write');
  await page.locator('#composer textarea').press('Enter');
  await page.waitForURL('**/chat/**');
  await page.locator('.message.model .block').first().waitFor();
  await page.evaluate(watch);
  const start = Date.now();
  await page.getByRole('button', { name: 'Send', exact: true }).waitFor({ timeout: 120_000 });
  const past = (Date.now() - start) / 1000;
  const figures = await page.evaluate(() => globalThis.figures);
  const text = await page.locator('.message.model').last().innerText();
  const missing = words.filter((word) => !text.includes(word.trim())).length;
  print(`${RATE} updates/s for ${past.toFixed(1)} s: missing words, shifts`, `${missing}, ${figures.shifts}`);
  printFrames(figures, 'streaming');
  const drawn = figures.frames.filter((length) => length < 25).length / figures.frames.length;
  print('streaming: frames without a dropped one before', `${(drawn * 100).toFixed(1)} % (${(figures.frames.length / past).toFixed(1)} frames/s)`);
  await context.close();
}

/** The memory of the renderer with the most of it, in MB. */
async function rendererMemory(browser) {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const sizes = await Promise.all(processInfo.filter(({ type }) => type === 'renderer').map(async ({ id }) => {
    const status = await readFile(`/proc/${id}/smaps_rollup`, 'utf8').catch(() => '');
    return Number(/^Pss:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1000;
  }));
  return Math.max(...sizes);
}

async function longChat(browser, url) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  const client = await context.newCDPSession(page);
  const opened = [];
  for (let round = 0; round < 5; round += 1) {
    const start = performance.now();
    await page.goto(`${url}/chat/${LONG_CHAT}`);
    await page.locator(`#m${MESSAGES}`).waitFor();
    opened.push(performance.now() - start);
  }
  print(`${MESSAGES.toLocaleString('en')} messages: open, median, worst`, `${ms(percentile(opened, 0.5))}, ${ms(Math.max(...opened))} of 5`);
  const used = [];
  for (let round = 1; round <= 3; round += 1) {
    if (round === 1) await page.evaluate(watch);
    const most = await scrollThrough(page);
    if (round === 1) printFrames(await page.evaluate(() => globalThis.figures), 'scrolling through all');
    used.push(await memory(client));
    const { usedSize, nodes } = used.at(-1);
    print(`after scroll ${round}: heap, nodes, renderer, most filled`, `${(usedSize / 1e6).toFixed(1)} MB, ${nodes}, ${(await rendererMemory(browser)).toFixed(0)} MB, ${most}`);
  }
  print('heap after three scrolls, compared with one', `${((used[2].usedSize / used[0].usedSize - 1) * 100).toFixed(1)} %`);
  await context.close();
}

const provider = await Provider.start();
const demo = await Gateway.start();
const gateway = await Gateway.start({ config: { mcpServers: {}, toolwire: provider.config } });
await importLongChat(gateway, MESSAGES);
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--disable-dev-shm-usage'] });
console.log(`Chromium ${browser.version()}`);
await firstPaints(browser, demo.url);
await updates(browser, gateway.url, provider);
await longChat(browser, gateway.url);
await browser.close();
await Promise.all([demo.stop(), gateway.stop(), provider.stop()]);
