import { hash } from 'node:crypto';

/** An algorithm that the sidecar uses, as docs/cryptography.md describes it. */
interface Use {
  /** The name that OpenSSL and Node use. */
  readonly algorithm: string;
  /** The name that standards use. */
  readonly name: string;
  /** Length of the key or of the digest. */
  readonly bits: number;
  readonly purpose: string;
  /** The files that use the algorithm. */
  readonly files: readonly string[];
  readonly standard: string;
  readonly fips: string;
  readonly quantum: string;
}

const approved =
  'approved algorithm; computed by the OpenSSL that Node is built with, which is not the validated module';
const symmetric = 'quantum search (Grover) halves the strength to 128 bits';

/**
 * Every algorithm that the sidecar uses. No other file names an algorithm, except files that try the algorithms that merchants' programs
 * may have used by mistake.
 */
export const cryptography = {
  envelope: {
    algorithm: 'aes-256-cbc',
    name: 'AES-256-CBC, PKCS#7',
    bits: 256,
    purpose: "opens and seals merchants' envelopes; not authenticated: [the limits](security.md)",
    files: [
      'src/envelope/aes-cbc.ts',
      'src/envelope/credentials.ts',
      'src/envelope/formats.ts',
      'src/console/envelope.ts',
    ],
    standard: 'FIPS 197, NIST SP 800-38A',
    fips: approved,
    quantum: symmetric,
  },
  vault: {
    algorithm: 'aes-256-gcm',
    name: 'AES-256-GCM, random nonces of 96 bits',
    bits: 256,
    purpose: 'seals stored credentials with the master key',
    files: ['src/accounts/vault.ts'],
    standard: 'NIST SP 800-38D',
    fips: approved,
    quantum: symmetric,
  },
  checkValue: {
    algorithm: 'aes-256-ecb',
    name: 'AES-256-CMAC, the first 40 bits',
    bits: 256,
    purpose: 'the key check value (KCV) of a master key',
    files: ['src/accounts/master-key.ts'],
    standard: 'NIST SP 800-38B, ANSI X9.24-1',
    fips: approved,
    quantum: symmetric,
  },
  digest: {
    algorithm: 'sha256',
    name: 'SHA-256',
    bits: 256,
    purpose:
      "stored API keys, operators' tokens, fingerprints of credentials, the chain of the audit trail, changes to files, refused stores",
    files: [
      'src/cryptography.ts',
      'src/accounts/key-maker.ts',
      'src/admin/drain-token.ts',
      'src/audit/verify.ts',
      'src/console/envelope.ts',
      'src/envelope/credentials.ts',
      'src/yaml/files.ts',
    ],
    standard: 'FIPS 180-4',
    fips: approved,
    quantum: '128 bits against preimages, at least 85 against collisions',
  },
  signature: {
    algorithm: 'ed25519',
    name: 'Ed25519',
    bits: 256,
    purpose: 'signs the audit trail',
    files: ['src/config/value-types.ts', 'src/cli/audit.ts', 'src/audit/chain.ts', 'src/audit/verify.ts'],
    standard: 'RFC 8032, FIPS 186-5',
    fips: approved,
    quantum:
      "broken by Shor's algorithm; once that is practical, only anchors kept elsewhere can prove that a trail predates it",
  },
} as const satisfies Record<string, Use>;

/** SHA-256 in lowercase hex. Keys and tokens are stored and looked up in this form, and the trail's hashes have the same form. */
export function sha256Hex(data: string | Buffer): string {
  return hash(cryptography.digest.algorithm, data, 'hex');
}

/** Cryptography that other software performs for the sidecar. */
export const delegated = [
  ['TLS 1.2 and 1.3', "listeners, upstreams and the database; Node's defaults, OpenSSL", 'RFC 8446, RFC 5246'],
  ['random numbers', "keys, IVs, nonces, tokens; OpenSSL's generator, seeded by the kernel", 'NIST SP 800-90A'],
  ['the wrapping of master keys', 'the KMS or HSM, if there is one: [kms.md](kms.md)', "the KMS's own"],
] as const;
