const kib = 1_024;
const mib = 1_024 * kib;

/** What the sidecar's memory depends on: its limits, and the numbers of clients and accounts. Sizes are in bytes. */
interface MemoryTerms {
  /** The size that Node's flag `--max-semi-space-size` sets. */
  readonly semiSpace: number;
  /** The size that Node's flag `--initial-heap-size` sets; 0 without the flag. */
  readonly initialHeap: number;
  readonly requestBody: number;
  readonly buffered: number;
  readonly header: number;
  readonly inFlight: number;
  readonly connections: number;
  readonly accounts: number;
  /** The setting `cache` for accounts in PostgreSQL; 0 for accounts in a file. */
  readonly cache?: number;
  /** Whether merchants' connections use TLS. */
  readonly tls?: boolean;
  /** Whether the operators' API is enabled. */
  readonly operators?: boolean;
}

/** The memory that a command in the container needs in addition, in MiB. */
export const commandMemory = 40;

/** The memory that `tracing` adds, in bytes. */
export const tracingBound = 32 * mib;

/** The maximum memory that the sidecar needs, in bytes, by the formula in docs/operators/capacity.md. */
export function memoryBound({
  semiSpace,
  initialHeap,
  requestBody,
  buffered,
  header,
  inFlight,
  connections,
  accounts,
  cache = 0,
  tls = false,
  operators = false,
}: MemoryTerms): number {
  return (
    60 * mib +
    heapTerms({ semiSpace, initialHeap }) +
    1.5 * (buffered + Math.max((4 / 3) * requestBody, buffered / 8)) +
    inFlight * 340 * kib +
    connections * ((tls ? 128 * kib : 10 * kib) + header) +
    20 * mib +
    accounts * 30 * kib +
    cache * 4 * kib +
    4 * mib +
    (operators ? 8 * mib + 100 * 64 * kib : 0) +
    (operators && cache === 0 ? fileThreadsBound({ semiSpace, initialHeap, accounts }) : 0)
  );
}

/** The maximum memory of the threads that read and change an accounts file for operators, in bytes, by the same formula. */
export function fileThreadsBound({
  accounts,
  ...flags
}: Pick<MemoryTerms, 'semiSpace' | 'initialHeap' | 'accounts'>): number {
  return 4 * (40 * mib + accounts * 60 * kib + heapTerms(flags));
}

/** What Node's flags add to the memory of a thread. */
function heapTerms({ semiSpace, initialHeap }: Pick<MemoryTerms, 'semiSpace' | 'initialHeap'>): number {
  return Math.max(0, initialHeap - 20 * mib) + 3 * (semiSpace - 8 * mib);
}

/** The worked examples of docs/operators/capacity.md, with the MiB that the page states for each. */
export function workedExamples(guide: string): (MemoryTerms & { readonly mebibytes: number })[] {
  const row =
    /^\| +(\d+) +\| +(\d+) +\| +(\d+)MiB +\| +(\d+)MiB +\| +(\d+)KiB +\| +([\d,]+) +\| +([\d,]+) +\| +([\d,]+) +\| +(\d+) +\|$/gm;
  return [...guide.matchAll(row)].map(([, ...cells]) => {
    const [
      semiSpace = 0,
      initialHeap = 0,
      requestBody = 0,
      buffered = 0,
      header = 0,
      inFlight = 0,
      connections = 0,
      accounts = 0,
      mebibytes = 0,
    ] = cells.map((cell) => Number(cell.replaceAll(',', '')));
    return {
      semiSpace: semiSpace * mib,
      initialHeap: initialHeap * mib,
      requestBody: requestBody * mib,
      buffered: buffered * mib,
      header: header * kib,
      inFlight,
      connections,
      accounts,
      mebibytes,
    };
  });
}
