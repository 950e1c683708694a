// A gateway: the program `toolwire serve` on a free port, with its own folder for data.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import readline from 'node:readline';

const API_KEYS = /_API_KEY$|^TOOLWIRE_|^OPENAI_BASE_URL$/;

/** The processes that end with the tests. */
const running = new Set();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

/**
 * A free port that no system gives to a program by itself. A gateway that is started again gets the same one, which another
 * test could have meanwhile.
 */
export async function portToKeep() {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    const server = net.createServer();
    const isFree = await new Promise((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => resolve(true));
    });
    if (!isFree) continue;
    await new Promise((resolve) => { server.close(resolve); });
    return port;
  }
}

export class Gateway {
  /** The lines that the program printed. */
  lines = [];
  #child;

  /**
   * Starts a gateway and waits until it is ready. Without a `config`, it is the demo.
   *
   * `config`: the content of `mcp.json`; `args`: more arguments of `serve`; `env`: more variables;
   * `port`: a fixed port, as after a restart; `folder`: the folder of a gateway that was stopped, to use its data.
   */
  static async start(options = {}) {
    const gateway = new Gateway();
    gateway.options = options;
    gateway.folder = options.folder ?? (await mkdtemp(path.join(tmpdir(), 'toolwire-page-')));
    if (options.config) await writeFile(path.join(gateway.folder, 'mcp.json'), JSON.stringify(options.config, null, 2));
    gateway.#child = gateway.#spawn(['serve', '--listen', `127.0.0.1:${options.port ?? 0}`, ...(options.args ?? [])]);
    running.add(gateway.#child);
    gateway.#child.once('exit', () => running.delete(gateway.#child));
    await gateway.#ready();
    return gateway;
  }

  #spawn(args, stdio = ['ignore', 'ignore', 'pipe']) {
    const variables = Object.entries(process.env).filter(([name]) => !API_KEYS.test(name));
    return spawn(process.env.PAGE_TEST_TOOLWIRE, args, {
      cwd: this.folder,
      env: {
        ...Object.fromEntries(variables),
        NO_COLOR: '1',
        HOME: this.folder,
        XDG_DATA_HOME: path.join(this.folder, 'data'),
        XDG_CONFIG_HOME: path.join(this.folder, 'config'),
        ...this.options.env,
      },
      stdio,
    });
  }

  /** Runs another command of the program with the data of the gateway, and returns what it prints. */
  async run(args, input = '') {
    const child = this.#spawn(args, 'pipe');
    const printed = { stdout: '', stderr: '' };
    for (const name in printed) child[name].on('data', (data) => { printed[name] += data; });
    child.stdin.end(input);
    const [code] = await once(child, 'close');
    if (code !== 0) throw new Error(`toolwire ${args.join(' ')} ended with ${code}:\n${printed.stderr}`);
    return printed.stdout;
  }

  async #ready() {
    const lines = readline.createInterface({ input: this.#child.stderr });
    await new Promise((resolve, reject) => {
      lines.on('line', (line) => {
        this.lines.push(line);
        if (line.startsWith('ready')) resolve();
      });
      lines.on('close', () => reject(new Error(`the gateway ended:\n${this.lines.join('\n')}`)));
      this.#child.on('error', reject);
    });
    this.url = this.lines.find((line) => line.startsWith('listening on ')).slice('listening on '.length).trim();
    this.port = Number(new URL(this.url).port);
  }

  /** The link with the one-time token of an administrator. */
  get adminLink() {
    const link = this.lines.map((line) => /http:\S+#token=\S+/.exec(line)?.[0]).find(Boolean);
    if (!link) throw new Error(`the gateway printed no link to sign in:\n${this.lines.join('\n')}`);
    return link;
  }

  /** Ends the process. `kill`: without a chance to end its connections. */
  async end({ kill = false } = {}) {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill(kill ? 'SIGKILL' : 'SIGTERM');
    await ended;
  }

  /** Ends the process and starts it again: the same port, the same data. */
  async restart(options = {}) {
    await this.end(options);
    return Gateway.start({ ...this.options, folder: this.folder, port: this.port });
  }

  /** Ends the process and removes its data. The page leaves first: it reports an error if it loses its connection. */
  async stop(page) {
    await page?.goto('about:blank');
    await this.end();
    await rm(this.folder, { recursive: true, force: true });
  }
}
