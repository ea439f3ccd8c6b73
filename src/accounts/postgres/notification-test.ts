import { randomBytes } from 'node:crypto';
import type { Client } from 'pg';
import { AccountsError } from '../accounts-error.ts';
import { withLookUpClient } from './clients.ts';
import { accountsError, isLocked, isQueueFull } from './failures.ts';

/** How long a notification may take to arrive, in milliseconds. */
const patience = 2_000;

/**
 * Sends a notification through a second connection and waits for it on `client`. A transaction pooler forwards look-ups but loses
 * notifications, so revoked keys would keep working unnoticed.
 *
 * @throws AccountsError `store_unavailable` if the notification does not arrive
 */
export async function expectNotifications(client: Client, url: string): Promise<void> {
  const channel = `envelope_sidecar_test_${randomBytes(8).toString('hex')}`;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const missed = new AccountsError(
    'store_unavailable',
    'notifications from the database do not arrive: connect to it directly, or through a pooler that keeps sessions',
  );
  const listener = (notification: { readonly channel: string }): void => {
    if (notification.channel === channel) resolve();
  };
  await client.query(`LISTEN ${channel}`);
  client.on('notification', listener);
  const timer = setTimeout(() => reject(missed), patience);
  try {
    const sent = notify(url, channel).catch((error: unknown) => {
      // Any role can fill the queue or hold its lock. The test then passes, because heartbeats find changes that cannot be announced.
      if (isQueueFull(error) || isLocked(error)) resolve();
      else throw error;
    });
    await Promise.all([promise, sent]);
  } finally {
    clearTimeout(timer);
    client.off('notification', listener);
  }
  await client.query(`UNLISTEN ${channel}`);
}

/** Tests a database that is not in use yet. @throws AccountsError if no listener can be added, or if notifications do not arrive */
export async function testNotifications(url: string): Promise<void> {
  try {
    await withLookUpClient(url, (client) => expectNotifications(client, url));
  } catch (error) {
    throw accountsError(error);
  }
}

/** Sends the notification. If the connection is lost, the notification does not arrive and the test fails. */
async function notify(url: string, channel: string): Promise<void> {
  await withLookUpClient(url, (sender) => sender.query(`SET lock_timeout = '500ms'; NOTIFY ${channel}`));
}
