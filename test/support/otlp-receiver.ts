import { createServer } from 'node:http';
import { listen } from './listen.ts';

/** A span as it came over the wire. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: 'server' | 'client' | undefined;
  /** Epoch nanoseconds. */
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly isError: boolean;
  /** Attributes of the service that sent the span. */
  readonly resource: Readonly<Record<string, unknown>>;
}

export interface OtlpReceiver {
  readonly origin: string;
  readonly spans: ReceivedSpan[];
  /** All bytes received, as a string that can be searched. */
  text(): string;
}

/** A receiver of traces over OTLP/HTTP with protobuf, closed when the test is over. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const bodies: Buffer[] = [];
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const isTraces = req.method === 'POST' && req.url === '/v1/traces';
      if (isTraces && req.headers['content-type'] === 'application/x-protobuf') {
        const body = Buffer.concat(chunks);
        bodies.push(body);
        spans.push(...spansOf(body));
        res.writeHead(200, { 'Content-Type': 'application/x-protobuf' }).end();
      } else {
        res.writeHead(404).end();
      }
    });
  });
  const port = await listen(server);
  return { origin: `http://127.0.0.1:${port}`, spans, text: () => Buffer.concat(bodies).toString('latin1') };
}

/** The fields of a protobuf message by their numbers. Each value is bytes or a number. */
type Fields = ReadonlyMap<number, readonly (Buffer | bigint)[]>;

/** Reads one message in the wire format of protobuf, whose types are varint, 64-bit, length-delimited and 32-bit. */
function fieldsOf(message: Buffer): Fields {
  const fields = new Map<number, (Buffer | bigint)[]>();
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = message.readUInt8(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const take = (length: number): Buffer => message.subarray(at, (at += length));
  while (at < message.length) {
    const tag = Number(varint());
    const wire = tag & 7;
    let value: Buffer | bigint;
    if (wire === 0) value = varint();
    else if (wire === 1) value = take(8).readBigUInt64LE();
    else if (wire === 2) value = take(Number(varint()));
    else if (wire === 5) value = BigInt(take(4).readUInt32LE());
    else throw new Error(`no wire type ${wire}`);
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), value]);
  }
  return fields;
}

const all = (fields: Fields, number: number): Buffer[] =>
  (fields.get(number) ?? []).filter((each) => Buffer.isBuffer(each));
const one = (fields: Fields, number: number): Buffer => all(fields, number)[0] ?? Buffer.alloc(0);
const int = (fields: Fields, number: number): bigint => {
  const [value = 0n] = fields.get(number) ?? [];
  return typeof value === 'bigint' ? value : 0n;
};

/** The spans of an `ExportTraceServiceRequest` (opentelemetry/proto/collector/trace/v1). */
function spansOf(request: Buffer): ReceivedSpan[] {
  return all(fieldsOf(request), 1).flatMap((bytes) => {
    const resourceSpans = fieldsOf(bytes);
    const resource = attributesOf(fieldsOf(one(resourceSpans, 1)), 1);
    return all(resourceSpans, 2).flatMap((scope) =>
      all(fieldsOf(scope), 2).map((span) => spanOf(fieldsOf(span), resource)),
    );
  });
}

function spanOf(span: Fields, resource: ReceivedSpan['resource']): ReceivedSpan {
  const kinds = new Map([
    [2n, 'server'],
    [3n, 'client'],
  ] as const);
  return {
    traceId: one(span, 1).toString('hex'),
    spanId: one(span, 2).toString('hex'),
    parentSpanId: one(span, 4).toString('hex'),
    name: one(span, 5).toString(),
    kind: kinds.get(int(span, 6) as 2n),
    start: int(span, 7),
    end: int(span, 8),
    attributes: attributesOf(span, 9),
    isError: int(fieldsOf(one(span, 15)), 3) === 2n,
    resource,
  };
}

function attributesOf(fields: Fields, number: number): Record<string, unknown> {
  return Object.fromEntries(
    all(fields, number).map((bytes) => {
      const attribute = fieldsOf(bytes);
      return [one(attribute, 1).toString(), valueOf(fieldsOf(one(attribute, 2)))];
    }),
  );
}

function valueOf(value: Fields): unknown {
  if (value.has(1)) return one(value, 1).toString();
  if (value.has(3)) return Number(int(value, 3));
  if (!value.has(4)) return undefined;
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(int(value, 4));
  return bytes.readDoubleLE();
}
