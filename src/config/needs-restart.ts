import { settingsInForce, writtenSettings } from './limits.ts';
import type { Listener, ServerTls, Settings } from './config.ts';

/** The members that cannot change while the process runs and whose values differ from those at startup. */
export function needsRestart(started: Settings, settings: Settings): readonly string[] {
  const before = pickFixed(started);
  return Object.entries(pickFixed(settings))
    .filter(([member, value]) => value !== before[member])
    .map(([member]) => member);
}

/** The settings of a running process: `settings`, except for members that cannot change while the process runs. */
export function keepFixed(started: Settings, settings: Settings): Settings {
  const { listen, operators } = settings;
  return {
    ...settings,
    listen: { ...started.listen, tls: tlsInForce(started.listen.tls, listen.tls) },
    admin: started.admin,
    operators: started.operators && {
      ...(operators ?? started.operators),
      host: started.operators.host,
      port: started.operators.port,
      tls: tlsInForce(started.operators.tls, operators?.tls),
    },
    ...settingsInForce(started, settings),
  };
}

/**
 * The certificates and keys in use, which a reload may renew. A reload does not change whether TLS is on or client certificates are
 * required.
 */
function tlsInForce(started: ServerTls | undefined, tls: ServerTls | undefined): ServerTls | undefined {
  if (started === undefined || tls === undefined) return started;
  const isFixed = (started.clientCa === undefined) !== (tls.clientCa === undefined);
  return isFixed ? { ...tls, clientCa: started.clientCa } : tls;
}

function pickFixed(settings: Settings): Readonly<Record<string, unknown>> {
  const { listen, admin, operators } = settings;
  const fixed = writtenSettings(settings).filter(({ needsRestart }) => needsRestart);
  return {
    listen: address(listen),
    'listen.tls': listen.tls === undefined,
    'listen.tls.clientCa': listen.tls?.clientCa === undefined,
    admin: address(admin),
    operators: operators && address(operators),
    'operators.tls': operators?.tls === undefined,
    'operators.tls.clientCa': operators?.tls?.clientCa === undefined,
    ...Object.fromEntries(fixed.map(({ member, value }) => [member, value])),
  };
}

function address({ host, port }: Listener): string {
  return `${host}:${port}`;
}
