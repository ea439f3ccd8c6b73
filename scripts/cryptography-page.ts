import { cryptography, delegated } from '../src/cryptography.ts';

/** docs/cryptography.md, the inventory that PCI DSS 12.3.3 requires. */
export function cryptographyPage(): string {
  const uses = Object.values(cryptography).map(
    ({ name, bits, purpose, files, standard, fips, quantum }) =>
      `## ${name}\n\n` +
      `- Purpose: ${purpose}\n- Bits: ${bits}\n- Standard: ${standard}\n- FIPS 140: ${fips}\n- Quantum computers: ${quantum}\n` +
      `- Files: ${files.map((file) => `\`${file}\``).join(', ')}\n`,
  );
  const others = delegated.map(([what, where, standard]) => `- ${what}: ${where}; ${standard}\n`);
  return (
    '# Cryptography\n\n' +
    'Every algorithm that the sidecar uses (PCI DSS 12.3.3). Generated from `src/cryptography.ts` by `node scripts/generate-config-docs.ts`; a test ' +
    'checks that no other file uses an algorithm. Review this list once a year, and when NIST or your acquirer withdraws an algorithm.\n\n' +
    uses.join('\n') +
    `\n## By other software\n\n${others.join('')}\n` +
    'A FIPS 140 module is not part of the image. With a KMS in front of a validated HSM, the key that wraps all others is in such a module.\n'
  );
}
