// What the JavaScript scripts have in common. It is placed in front of each script.

import assert from "node:assert/strict";

const { GATEWAY, GATEWAY_WITH_KEY, GATEWAY_KEY, GATEWAY_MODEL: MODEL } = process.env;

// Nothing in the environment may change what a client does.
for (const name of Object.keys(process.env)) {
  if (/^(OPENAI|ANTHROPIC)_|_proxy$/i.test(name)) delete process.env[name];
}

const WEATHER = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const NOTHING = { type: "object", properties: {} };
const RESULTS = { get_weather: "sunny", get_time: "noon" };
const ROUNDS = ["First.", "Second.", "Results: value of a | value of b."];
const PARALLEL = "Results: value of a | it is broken.";
// The response to `json` and `rounds-json`.
const PARIS = { city: "Paris", degrees: 20 };

function contains(text, ...fragments) {
  for (const fragment of fragments) assert.ok(text.includes(fragment), `no ${fragment} in ${text}`);
}

/** Returns the error of this class that an action throws. */
async function throws(kind, action) {
  try {
    await action();
  } catch (error) {
    assert.equal(error.constructor.name, kind.name, `${error}`);
    return error;
  }
  assert.fail(`expected ${kind.name}, but nothing was thrown`);
}

/** Runs all checks, and reports each one that fails. */
async function run(checks) {
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
    } catch (error) {
      console.log(`FAILED ${name}\n${error.stack}`);
      process.exitCode = 1;
    }
  }
}

