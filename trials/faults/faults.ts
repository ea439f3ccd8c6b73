/** A fault put into one file by hand, and the test file that must fail with it. */
export interface Fault {
  readonly file: string;
  /** Text that occurs in the file exactly once. */
  readonly text: string;
  readonly replacement: string;
  readonly test: string;
}

/** One fault for each text, which removes that text from the file. */
const without = (file: string, test: string, ...texts: readonly string[]): Fault[] =>
  texts.map((text) => ({ file, text, replacement: '', test }));

/** Faults that StrykerJS cannot make: in languages other than TypeScript, in durability, and in the order of calls. */
export const faults: readonly Fault[] = [
  // StrykerJS does not remove individual statements from a block.
  {
    file: 'src/accounts/file/replace.ts',
    text: '  copyRights(model, file.fd);\n  fsyncSync(file.fd);\n',
    replacement: '  copyRights(model, file.fd);\n',
    test: 'test/accounts/file/durable.test.ts',
  },
  {
    file: 'src/accounts/file/replace.ts',
    text: "  using file = openFile(folder, 'r');\n  fsyncSync(file.fd);\n",
    replacement: "  using file = openFile(folder, 'r');\n",
    test: 'test/accounts/file/durable.test.ts',
  },
  ...without('bin/sidecar', 'test/cli/sidecar-command.test.ts', ' --disable-sigusr1', 'exec '),
  ...without(
    'Dockerfile',
    'test/image/image.test.ts',
    'USER 65532:65532\nEXPOSE',
    '"--disable-sigusr1", ',
    '"--max-semi-space-size=16", ',
    '"--max-old-space-size-percentage=35", ',
    '    NODE_COMPILE_CACHE=/app/compile-cache \\\n',
  ),
  ...without('Dockerfile', 'test/image/contents.test.ts', ' --no-bin-links', '      delete bill.serialNumber; \\\n'),
  ...without(
    'deploy/components/envelope-sidecar/deployment-patch.yaml',
    'test/deploy/manifests.test.ts',
    '          restartPolicy: Always\n',
    '            readOnlyRootFilesystem: true\n',
    ', readOnly: true }\n            - { name: envelope-sidecar-runtime',
    ', defaultMode: 0440',
  ),
  ...without(
    'deploy/base/network-policy.yaml',
    'test/deploy/manifests.test.ts',
    'Ingress, ',
    '        - { port: 9090 }\n',
  ),
];
