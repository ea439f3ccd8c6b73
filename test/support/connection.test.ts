import { expect, onTestFinished, test, vi } from 'vitest';
import { startByteUpstream } from './byte-upstream.ts';
import { openConnection, type Connection } from './connection.ts';

test.each<[string, (client: Connection) => Promise<string>]>([
  ['the other side sends "done"', (client) => client.untilText('done')],
  ['the other side ends the connection', (client) => client.untilEnded()],
])('a wait that takes too long names what was awaited and received: %s', async (awaited, wait) => {
  const { origin } = await startByteUpstream(({ socket }) => void socket.write('begun'));
  const client = await openConnection(Number(new URL(origin).port));
  client.send('GET / HTTP/1.1\r\n\r\n');
  await client.untilText('begun');

  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  const waited = wait(client);
  vi.advanceTimersByTime(25_000);
  await expect(waited).rejects.toThrow(`timed out after 25000 ms: ${awaited}, after "begun"`);
});
