// A TCP proxy. Playwright's `setOffline` does not end an open event stream; closing its connection does.
import net from 'node:net';
import { Transform } from 'node:stream';

export class Proxy {
  #server;
  #sockets = new Set();
  #isRefusing = false;

  static async start(target) {
    const proxy = new Proxy();
    const { hostname, port } = new URL(target);
    proxy.#server = net.createServer((client) => proxy.#forward(client, hostname, Number(port)));
    await new Promise((resolve) => proxy.#server.listen(0, '127.0.0.1', resolve));
    proxy.url = `http://127.0.0.1:${proxy.#server.address().port}`;
    return proxy;
  }

  #forward(client, host, port) {
    if (this.#isRefusing) return void client.resetAndDestroy();
    const upstream = net.connect(port, host);
    // The gateway accepts only its own address in `Host` and `Origin`.
    const rename = replace(`${host}:${client.localPort}`, `${host}:${port}`);
    for (const [from, to] of [[client, upstream], [upstream, client]]) {
      this.#sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
    client.pipe(rename).pipe(upstream);
    upstream.pipe(client);
  }

  /** Closes all connections. New ones are accepted. */
  cut() {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Closes all connections and refuses new ones, until `restore`. */
  disconnect() {
    this.#isRefusing = true;
    this.cut();
  }

  restore() {
    this.#isRefusing = false;
  }

  async stop() {
    this.disconnect();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Replaces a text in a stream. Requests of the tests are small, so that their headers arrive whole. */
function replace(text, by) {
  return new Transform({
    transform: (chunk, _, done) => done(null, Buffer.from(chunk.toString('latin1').replaceAll(text, by), 'latin1')),
  });
}
