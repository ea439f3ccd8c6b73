import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { inFlight } from '../../test/support/metrics.ts';
import type { LoadedSidecar } from '../load/sidecar.ts';
import type { Defer } from '../load/stage.ts';

/** The resources of a process at one moment, in bytes or as counts. */
export interface Sample {
  /** Seconds since the sampler started. */
  readonly at: number;
  readonly rss: number;
  /** The number of open file descriptors, and how many of them are sockets. */
  readonly files: number;
  readonly sockets: number;
  readonly inFlight: number;
  /** Bytes in use after a full garbage collection, on the heap and in buffers outside it. */
  readonly collected: { readonly heap: number; readonly buffers: number } | undefined;
}

/**
 * Observes a sidecar from outside: through the kernel, the sidecar's metrics, and Node's inspector, which can also
 * collect garbage.
 */
export class Sampler {
  readonly #sidecar: LoadedSidecar;
  readonly #inspector: WebSocket;
  readonly #begin = performance.now();
  #calls = 0;

  private constructor(sidecar: LoadedSidecar, inspector: WebSocket) {
    this.#sidecar = sidecar;
    this.#inspector = inspector;
  }

  /** @param sidecar must have been started with `--inspect` */
  static async of(sidecar: LoadedSidecar, defer: Defer): Promise<Sampler> {
    const url = /ws:\/\/\S+/.exec(sidecar.errors())?.[0];
    if (url === undefined) throw new Error(`no inspector: ${sidecar.errors()}`);
    const inspector = new WebSocket(url);
    defer(() => inspector.terminate());
    await once(inspector, 'open');
    return new Sampler(sidecar, inspector);
  }

  async sample(collecting: boolean): Promise<Sample> {
    const at = (performance.now() - this.#begin) / 1_000;
    const folder = `/proc/${this.#sidecar.pid}`;
    const status = readFileSync(`${folder}/status`, 'utf8');
    const files = readdirSync(`${folder}/fd`);
    return {
      at,
      rss: Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) * 1_024,
      files: files.length,
      sockets: files.filter((file) => linkOf(`${folder}/fd/${file}`).startsWith('socket:')).length,
      inFlight: await inFlight(this.#sidecar),
      collected: collecting ? await this.#collected() : undefined,
    };
  }

  async #collected(): Promise<{ heap: number; buffers: number }> {
    await this.#call('HeapProfiler.collectGarbage');
    const { result } = await this.#call('Runtime.evaluate', { expression: 'JSON.stringify(process.memoryUsage())' });
    const { heapUsed, external } = JSON.parse(result?.value ?? '') as { heapUsed: number; external: number };
    return { heap: heapUsed, buffers: external };
  }

  #call(method: string, params: object = {}): Promise<{ readonly result?: { readonly value?: string } }> {
    this.#calls += 1;
    const id = this.#calls;
    return new Promise((resolve, reject) => {
      const onMessage = (data: Buffer): void => {
        const response = JSON.parse(data.toString()) as { id?: number; result?: object };
        if (response.id !== id) return;
        this.#inspector.off('message', onMessage).off('close', onClose);
        resolve(response.result ?? {});
      };
      const onClose = (): void => reject(new Error('the sidecar has ended'));
      this.#inspector.on('message', onMessage).once('close', onClose);
      this.#inspector.send(JSON.stringify({ id, method, params }));
    });
  }
}

/** The target of a link of /proc; empty if the file was closed in the meantime. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}
