// `main.rs` copies this folder to a place with the installed packages and starts it there.
import { defineConfig } from '@playwright/test';

export default defineConfig({
  testDir: '.',
  testMatch: '*.spec.mjs',
  outputDir: process.env.PAGE_TEST_OUTPUT,
  // A test that fails only sometimes is a bug.
  retries: 0,
  workers: 2,
  forbidOnly: true,
  reporter: [['list']],
  // The limits only end a test that hangs. A busy machine needs minutes for what takes a second.
  timeout: 300_000,
  expect: { timeout: 60_000 },
  use: {
    browserName: 'chromium',
    viewport: { width: 1280, height: 900 },
    locale: 'en-GB',
    timezoneId: 'UTC',
    actionTimeout: 60_000,
    navigationTimeout: 120_000,
    screenshot: 'only-on-failure',
    // Recording traces makes the tests much slower.
    trace: process.env.PAGE_TEST_TRACE ? 'retain-on-failure' : 'off',
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: ['--disable-dev-shm-usage'],
    },
  },
});
