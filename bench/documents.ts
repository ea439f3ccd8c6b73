/**
 * A JSON document of exactly `size` bytes (at least 32), which is always the same. It serves as the body that merchants
 * send, as the response of the upstream, and as the expected result.
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
