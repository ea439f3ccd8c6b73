import type { FileState, RunningState } from '../config/file-states.ts';
import { rfc3339 } from '../input/value-types.ts';

/** The status of a file: whether its current content is in force and, if not, what is wrong with it. */
interface FileStatus {
  readonly in_force: boolean;
  /** When the content in force was last loaded, in RFC 3339 format. A reload loads all files, even if only one of them has changed. */
  readonly loaded_at: string;
  readonly problems: readonly string[];
}

/** The response to `/drain`, `/reload` and `/status`. Contains no secrets. */
export interface Status {
  readonly version: string;
  readonly ready: boolean;
  readonly in_flight: number;
  readonly connections: number;
  readonly configuration: FileStatus | null;
  /** Null if the accounts are in a database. */
  readonly accounts_file: FileStatus | null;
  /** Whether the database is connected. Null if the accounts are in a file. */
  readonly database: boolean | null;
  readonly needs_restart: readonly string[];
}

export function describeStatus({ version, ready, fileStates, needsRestart, database, limits }: RunningState): Status {
  return {
    version,
    ready,
    in_flight: limits.used.inFlight,
    connections: limits.used.connections,
    configuration: fileStatus(fileStates.of('sidecar')),
    accounts_file: fileStatus(fileStates.of('accounts')),
    database: database?.connected ?? null,
    needs_restart: needsRestart,
  };
}

function fileStatus(file: FileState | undefined): FileStatus | null {
  if (file === undefined) return null;
  const { loadedAt, problems } = file;
  return { in_force: problems.length === 0, loaded_at: rfc3339(loadedAt), problems };
}
