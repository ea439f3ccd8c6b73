/**
 * A JSON document of exactly `size` bytes (32 at least), always the same: the body that merchants send, the response of
 * the upstream, and the expected result.
 */
export function documentOf(size: number): Buffer {
  const items: string[] = [];
  const head = '{"status":true,"data":[';
  const tail = (padding: number): string => `],"note":"${'n'.repeat(padding)}"}`;
  let length = head.length + tail(0).length;
  for (let i = 0; ; i += 1) {
    const item = `{"reference":"T${String(i).padStart(6, '0')}","amount":${1000 + (i % 9000)},"currency":"NGN","fee":14.50,"ok":true}`;
    const comma = i === 0 ? 0 : 1;
    if (length + comma + item.length > size) break;
    items.push(item);
    length += comma + item.length;
  }
  return Buffer.from(head + items.join(',') + tail(size - length));
}
