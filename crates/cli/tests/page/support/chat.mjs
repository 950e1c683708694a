// Chats with a model that the test scripts, and with the server of `tools.mjs`.
import path from 'node:path';
import { Gateway } from './gateway.mjs';
import { Provider, resultsOf } from './provider.mjs';
import { expect, test as base } from './test.mjs';

/** A gateway with a model that the test scripts, and the server with results of every kind. */
export const test = base.extend({
  /** More servers than that of `tools.mjs`. */
  servers: [{}, { option: true, scope: 'worker' }],

  provider: [async ({}, use) => {
    const provider = await Provider.start();
    await use(provider);
    await provider.stop();
  }, { scope: 'worker' }],
  gateway: [async ({ provider, servers }, use) => {
    const tools = path.join(import.meta.dirname, 'tools.mjs');
    const config = { mcpServers: { files: { command: process.execPath, args: [tools] }, ...servers }, toolwire: provider.config };
    const gateway = await Gateway.start({ config });
    await use(gateway);
    await gateway.stop();
  }, { scope: 'worker' }],
});

export const send = async (page, text) => {
  await page.locator('#composer textarea').fill(text);
  await page.locator('#composer textarea').press('Enter');
};
export const start = async (page, text) => {
  await page.goto('/');
  await send(page, text);
  await page.waitForURL('**/chat/**');
};
export const last = (page) => page.locator('.message.model').last();
export const idle = (page) => expect(page.getByRole('button', { name: 'Send', exact: true })).toBeVisible();
export const card = (page, name) => page.locator('.call', { has: page.locator('.call-name', { hasText: name }) }).last();
/** Calls tools in the first step, and says `done` in the second. */
export const calling = (...calls) => (request) => (resultsOf(request).length ? ['done'] : calls.map(([name, args = {}]) => ({ call: [name, args] })));

/** Presses a key until it counts: a question must have been in view for a moment. */
export async function pressWhenSeen(question, page, key) {
  await page.locator('#main').focus();
  await expect(async () => {
    if (await question.count()) await page.keyboard.press(key);
    await expect(question).toHaveCount(0, { timeout: 500 });
  }).toPass();
}
