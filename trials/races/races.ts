import { setTimeout } from 'node:timers/promises';
import { count } from '../../bench/table.ts';
import { keys, acmeTest } from '../../test/support/sidecar.ts';
import { accountsFile, acmeEntry, globexEntry, MountedFolder } from '../../test/support/folder.ts';
import type { RawResponse } from '../../test/support/connection.ts';
import { inFlight } from '../../test/support/metrics.ts';
import { openedBy, sealedBy } from '../load/cipher.ts';
import type { Findings } from '../load/command-line.ts';
import { everyFeature, startBacking } from '../load/every-feature.ts';
import { startLoadedSidecar } from '../load/sidecar.ts';
import type { Defer } from '../load/stage.ts';
import type { PeerTls } from '../load/tls-socket.ts';
import { endConnection, endings, moments, spin, startFaultyCore, type Ending, type FaultyCore } from './faulty-core.ts';
import { Wire } from './wire.ts';

/**
 * The number of merchants that race at the same time: usually one of `fewLanes`, but `manyLanes` after a rest, because the sidecar then
 * checks every connection before it uses it again.
 */
const fewLanes = [1, 2, 4, 8] as const;
const manyLanes = 32;
/** The length of a rest, which is longer than the sidecar reuses an idle connection without checking it. Milliseconds. */
const rest = 520;
/** A body of this size arrives in pieces, so the core sees its head before its end. */
const manyBytes = 200_000;
/** The number of later requests, which must all succeed. */
const afterwards = 100;

const timeouts = { connect: '2s', header: '10s', request: '60s', upstream: '10s', idle: '75s', drain: '25s' };

/** The kind of requests that are sent between races. They race only with what the previous race left behind. */
const between = 'nothing, between races';

/** A charge with a unique id. */
interface Charge {
  readonly id: string;
  readonly sealed: boolean;
  readonly request: string;
}

interface Tally {
  races: number;
  answered: number;
  refusedSeen: number;
  refusedUnseen: number;
}

function oneOf<T>(choices: readonly [T, ...T[]]): T {
  return choices[Math.floor(Math.random() * choices.length)] ?? choices[0];
}

/** Sends charges to a core that ends connections just as charges arrive. Each charge must be seen at most once. */
export async function runRaces(races: number, defer: Defer): Promise<Findings> {
  const core = await startFaultyCore(defer);
  const backing = await startBacking(defer);
  const database = await backing.databaseOf(accountsFile(acmeEntry, globexEntry(keys.globex)));
  // The core does not speak TLS, because it ends connections at the TCP level.
  const options = { core: core.origin, accounts: { database }, tls: true, timeouts };
  const folder = new MountedFolder({ 'sidecar.yaml': everyFeature(backing, options) }, defer);
  const sidecar = await startLoadedSidecar(folder.file('sidecar.yaml'), defer, { listeners: 3 });
  const course = new Course(core, sidecar.port, { ca: backing.ca, ...backing.client });
  defer(() => course.close());

  for (let round = 1; course.raced < races; round += 1) {
    const rested = round % 100 === 0;
    const lanes = rested ? manyLanes : oneOf(fewLanes);
    const ending = oneOf(endings);
    await course.warmUp(lanes);
    if (rested) {
      await setTimeout(rest);
      await course.raceIdle(`${ending} after a rest`, lanes, ending);
    } else if (round % 5 < 3) {
      await course.raceIdle(`${ending} while idle`, lanes, ending);
    } else {
      const moment = oneOf(moments);
      await course.raceBusy(`${ending} ${moment}`, lanes, { moment, ending });
    }
  }
  await course.finish(afterwards);
  const open = await inFlight(sidecar);
  if (open > 0) course.problems.push(`${open} requests are still in flight`);

  return {
    title: `${course.raced} races, ${course.flightTime.toFixed(2)} ms from a client to the core`,
    tables: [course.table()],
    problems: course.problems,
  };
}

class Course {
  readonly problems: string[] = [];
  raced = 0;
  /** How long a request takes from its client to the core, in milliseconds. */
  flightTime = 0.5;
  readonly #core: FaultyCore;
  readonly #port: number;
  readonly #tls: PeerTls;
  readonly #wires: Wire[] = [];
  readonly #tallies = new Map<string, Tally>();
  #charges = 0;

  constructor(core: FaultyCore, port: number, tls: PeerTls) {
    this.#core = core;
    this.#port = port;
    this.#tls = tls;
  }

  /** Sends a request on each lane, so that the sidecar has that many idle connections. */
  async warmUp(lanes: number): Promise<void> {
    await this.#wire(lanes);
    const begin = performance.now();
    const sent = this.#chargesFor(lanes).map((charge, lane) => ({ charge, response: this.#send(lane, charge) }));
    for (const { charge, response } of sent) this.#judge(between, charge, await response);
    if (lanes === 1) this.flightTime += (this.#core.lastSeen - begin - this.flightTime) / 10;
  }

  /** Makes the core end its idle connections at about the moment at which the next requests are written to them. */
  async raceIdle(kind: string, lanes: number, ending: Ending): Promise<void> {
    await this.#wire(lanes);
    const charges = this.#chargesFor(lanes);
    const responses: Promise<RawResponse | undefined>[] = [];
    const begin = performance.now() + 0.05;
    const sends = charges.map((charge, lane) => ({
      at: begin + Math.random() * 0.1,
      act: (): void => void (responses[lane] = this.#send(lane, charge)),
    }));
    const ends = [...this.#core.connections].map((socket) => ({
      at: begin + Math.random() * 2 * this.flightTime,
      act: (): void => endConnection(socket, ending),
    }));
    for (const { at, act } of [...sends, ...ends].toSorted((a, b) => a.at - b.at)) {
      spin(at - performance.now());
      act();
    }
    for (const [lane, charge] of charges.entries()) this.#judge(kind, charge, await responses[lane]);
  }

  /** Makes the core end connections in the middle of a response, while each client immediately sends one more request. */
  async raceBusy(kind: string, lanes: number, fault: NonNullable<FaultyCore['fault']>): Promise<void> {
    await this.#wire(lanes);
    this.#core.fault = fault;
    await Promise.all(
      this.#chargesFor(lanes).map(async (charge, lane) => {
        this.#judge(kind, charge, await this.#send(lane, charge));
        if (this.#wires[lane]?.over !== false) return;
        const [next] = this.#chargesFor(1);
        if (next !== undefined) this.#judge(kind, next, await this.#send(lane, next));
      }),
    );
    this.#core.fault = undefined;
  }

  /**
   * Sends further requests, which must all succeed. No more connections may be open than were needed at the same time.
   */
  async finish(requests: number): Promise<void> {
    const lanes = 10;
    await this.#wire(lanes);
    for (let sent = 0; sent < requests; sent += lanes) {
      const charges = this.#chargesFor(lanes);
      const responses = await Promise.all(charges.map((charge, lane) => this.#send(lane, charge)));
      for (const [i, response] of responses.entries()) {
        if (response?.status !== 200)
          this.problems.push(`${charges[i]?.id} afterwards: ${response?.status ?? 'no response'}`);
      }
    }
    const open = this.#core.connections.size;
    if (open === 0 || open > manyLanes) this.problems.push(`${open} connections to the core afterwards`);
    // This is done last, because requests that arrive late count as seen.
    for (const [id, times] of this.#core.seen) if (times > 1) this.problems.push(`${id} was seen ${times} times`);
  }

  table(): string[][] {
    const all = [...this.#tallies].toSorted(([a], [b]) => a.localeCompare(b));
    const lines = all.filter(([kind]) => kind !== between);
    const sum = (of: (tally: Tally) => number): number => lines.reduce((all, [, tally]) => all + of(tally), 0);
    const together: Tally = {
      races: sum(({ races }) => races),
      answered: sum(({ answered }) => answered),
      refusedSeen: sum(({ refusedSeen }) => refusedSeen),
      refusedUnseen: sum(({ refusedUnseen }) => refusedUnseen),
    };
    const others = all.filter(([kind]) => kind === between);
    return [
      ['the core ends connections by', 'races', 'answered 200', 'refused, seen once', 'refused, not seen'],
      ...lines.map(lineOf),
      lineOf(['together', together]),
      ...others.map(lineOf),
    ];
  }

  close(): void {
    for (const wire of this.#wires) wire.close();
  }

  async #wire(lanes: number): Promise<void> {
    for (let lane = 0; lane < lanes; lane += 1) {
      if (this.#wires[lane]?.over !== false) this.#wires[lane] = await Wire.open(this.#port, this.#tls);
    }
  }

  #send(lane: number, { request }: Charge): Promise<RawResponse | undefined> {
    const wire = this.#wires[lane];
    return wire === undefined ? Promise.resolve(undefined) : wire.send(request);
  }

  #chargesFor(lanes: number): Charge[] {
    return Array.from({ length: lanes }, () => {
      this.#charges += 1;
      const id = `charge-${this.#charges}`;
      const sealed = this.#charges % 2 === 0;
      const size = this.#charges % 37 === 0 ? manyBytes : 0;
      // A capture has no body, so the core sees only its head. It must not be sent twice either.
      const isCapture = this.#charges % 3 === 0;
      const json = JSON.stringify({ id, amount: 4_200, note: 'z'.repeat(size) });
      const charge = sealed ? sealedBy(acmeTest, json) : json;
      const body = isCapture ? '' : charge;
      const request = [
        `POST ${sealed ? '/api/s2s' : ''}${isCapture ? '/capture' : '/charges'} HTTP/1.1`,
        'Host: localhost',
        `Authorization: Bearer ${sealed ? keys.acme : keys.globex}`,
        `Idempotency-Key: ${id}`,
        ...(isCapture ? [] : [`Content-Length: ${body.length}`]),
        '',
        body,
      ].join('\r\n');
      return { id, sealed, request };
    });
  }

  /**
   * A charge that got a response from the core must have been seen once, and one that was refused with `upstream_unavailable` at most once.
   */
  #judge(kind: string, { id, sealed }: Charge, response: RawResponse | undefined): void {
    this.raced += kind === between ? 0 : 1;
    const seen = this.#core.seen.get(id) ?? 0;
    const body = response && (sealed ? openedBy(acmeTest, response.body) : response.body);
    const tally = this.#tallies.get(kind) ?? { races: 0, answered: 0, refusedSeen: 0, refusedUnseen: 0 };
    this.#tallies.set(kind, tally);
    tally.races += 1;
    if (response?.status === 200 && seen === 1 && body === JSON.stringify({ id })) tally.answered += 1;
    else if (response?.status === 502 && seen <= 1 && body?.includes('"upstream_unavailable"') === true) {
      if (seen === 1) tally.refusedSeen += 1;
      else tally.refusedUnseen += 1;
    } else {
      this.problems.push(
        `${kind}: ${id} was seen ${seen} times and got ${response?.status ?? 'no response'} ${body ?? ''}`,
      );
    }
  }
}

function lineOf([kind, { races, answered, refusedSeen, refusedUnseen }]: readonly [string, Tally]): string[] {
  return [kind].concat([races, answered, refusedSeen, refusedUnseen].map(count));
}
