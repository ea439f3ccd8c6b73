import type { Listener, Settings } from './config.ts';

/** The members that differ from those the process started with and cannot change while it runs. */
export function needsRestart(started: Settings, settings: Settings): readonly string[] {
  const before = fixedOf(started);
  return Object.entries(fixedOf(settings))
    .filter(([member, value]) => value !== before[member])
    .map(([member]) => member);
}

function fixedOf({ listen, admin, operators, limits }: Settings): Readonly<Record<string, unknown>> {
  return {
    listen: address(listen),
    'listen.tls': listen.tls === undefined,
    'listen.tls.clientCa': listen.tls?.clientCa === undefined,
    admin: address(admin),
    operators: operators && address(operators),
    'operators.tls': operators?.tls === undefined,
    'operators.tls.clientCa': operators?.tls?.clientCa === undefined,
    'limits.header': limits.header,
  };
}

function address({ host, port }: Listener): string {
  return `${host}:${port}`;
}
