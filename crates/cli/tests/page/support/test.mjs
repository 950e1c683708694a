// The `test` of Playwright with a running gateway, and with traps for what must not happen in any test.
import { test as base, expect } from '@playwright/test';
import { Gateway } from './gateway.mjs';

export { expect };

export const test = base.extend({
  /** Options of the gateway of a file: `test.use({ gatewayOptions: { … } })`, as in `Gateway.start`. */
  gatewayOptions: [{}, { option: true, scope: 'worker' }],

  /** A gateway that the tests of a file share. Tests that stop it or need their own start one with `Gateway.start`. */
  gateway: [
    async ({ gatewayOptions }, use) => {
      const gateway = await Gateway.start(gatewayOptions);
      await use(gateway);
      await gateway.stop();
    },
    { scope: 'worker' },
  ],

  baseURL: async ({ gateway }, use) => use(gateway.url),

  /** What the page did that it must not do. A test that causes some of it on purpose calls `traps.allow(pattern)`. */
  traps: [
    async ({ context }, use) => {
      const traps = new Traps();
      await traps.watch(context);
      await use(traps);
      expect(traps.found, 'errors, violations, dialogs, and requests to other origins').toEqual([]);
    },
    { auto: true },
  ],
});

export class Traps {
  #caught = [];
  #allowed = [];

  /** What was caught, except for what the test allows. */
  get found() {
    return this.#caught.filter((text) => !this.#allowed.some((pattern) => pattern.test(text)));
  }

  allow(pattern) {
    this.#allowed.push(pattern);
  }

  /** A test that makes its own context adds it here. */
  async watch(context) {
    await context.exposeBinding('reportViolation', (_, text) => this.#caught.push(`violation: ${text}`));
    await context.addInitScript(() => {
      addEventListener('securitypolicyviolation', (event) => {
        globalThis.reportViolation(`${event.effectiveDirective} ${event.blockedURI} ${event.sample} at ${event.sourceFile}:${event.lineNumber}`);
      });
    });
    context.on('console', (message) => {
      if (message.type() === 'error') this.#caught.push(`console: ${message.text()} (${message.location().url})`);
    });
    context.on('weberror', (error) => this.#caught.push(`error: ${error.error().name} ${error.error().message} ${error.error().stack}`));
    context.on('dialog', (dialog) => {
      this.#caught.push(`dialog: ${dialog.message()}`);
      dialog.dismiss().catch(() => {});
    });
    context.on('request', (request) => {
      if (!isOwn(request)) this.#caught.push(`request: ${request.url()}`);
    });
  }
}

/** Whether a request goes to the origin of its page, or opens a page of this machine. */
function isOwn(request) {
  const url = new URL(request.url());
  if (['data:', 'blob:', 'about:'].includes(url.protocol)) return true;
  if (request.isNavigationRequest()) return url.hostname === '127.0.0.1';
  return url.origin === new URL(request.frame().url()).origin;
}
