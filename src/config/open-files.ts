import { readFileSync } from 'node:fs';
import { problemWithFile } from '../yaml/file-problem.ts';
import type { ReloadedFiles } from './loaded.ts';

/** How many files and sockets the sidecar itself needs: for listeners, log, stores, threads, and operators' and admin connections. */
const reserved = 320;

/**
 * How many files and sockets this process may have open at once. Infinity if the system does not say, as on macOS. At startup, Node raises
 * its soft limit to the hard one.
 */
export function readOpenFiles(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? [];
    return Number(soft ?? Infinity);
  } catch {
    return Infinity;
  }
}

/**
 * Lowers `limits.connections`, with a warning, if the process may not open enough files for that many clients and their requests to the
 * upstreams. Otherwise, clients without a key could leave the sidecar no file descriptor for reading a revocation.
 *
 * @param openFiles how many files and sockets the process may have open
 */
export function fitConnections<Files extends ReloadedFiles>(loaded: Files, file: string, openFiles: number): Files {
  const { sidecar } = loaded;
  if (sidecar?.ok !== true) return loaded;
  const { connections, inFlight } = sidecar.value.limits;
  const available = openFiles - reserved;
  // Each client has at most one request in flight.
  const most = Math.max(16, Math.floor(available / 2), available - inFlight);
  if (connections <= most) return loaded;
  const message = `the process may open only ${openFiles} files: at most ${most} connections are accepted`;
  const warnings = [...sidecar.warnings, problemWithFile(file, message, 'limits.connections')];
  const value = { ...sidecar.value, limits: { ...sidecar.value.limits, connections: most } };
  return { ...loaded, sidecar: { ...sidecar, value, warnings } };
}
