import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import drivers from '../../kits/drivers.json' with { type: 'json' };
import { generateVectors, vectorsFile } from '../../kits/generate-vectors.ts';
import manifest from '../../package.json' with { type: 'json' };
import { builtProgram } from '../support/command.ts';

const run = promisify(execFile);
const kits = Object.keys(drivers);
const folders = readdirSync('kits', { withFileTypes: true }).filter((entry) => entry.isDirectory());

/** The single file of each kit that users may copy, and the file that states the kit's version. */
const files: Readonly<Record<string, readonly [core: string, metadata: string]>> = {
  typescript: ['envelope.ts', 'package.json'],
  php: ['Envelope.php', 'composer.json'],
  python: ['envelope.py', 'pyproject.toml'],
  java: ['Envelope.java', 'pom.xml'],
  // A Go module has no version in its metadata, because its versions are tags.
  go: ['envelope.go', 'README.md'],
  ruby: ['envelope.rb', 'envelope-sidecar-kit.gemspec'],
  csharp: ['Envelope.cs', 'EnvelopeSidecar.Kit.csproj'],
};

describe('vectors.json', () => {
  test('is what openssl produces', () => {
    expect(JSON.parse(readFileSync(vectorsFile, 'utf8'))).toEqual(generateVectors());
  });

  test('has the ciphertext that the docs and the commands show', () => {
    expect(generateVectors().valid[0]).toMatchObject({
      plaintext: '{"amount":1500}',
      data: 'b1cfe5cf79092760fa94b1d5aa17a154',
    });
  });
});

test('every kit has a driver', () => {
  const others = new Set(['conformance', 'end-to-end']);
  const names = folders.map(({ name }) => name).filter((name) => !others.has(name));
  expect(kits.toSorted()).toEqual(names.toSorted());
  expect(Object.keys(files).toSorted()).toEqual(names.toSorted());
});

describe.each(kits)('the kit for %s', (kit) => {
  const [core = '', metadata = ''] = files[kit] ?? [];
  const read = (file: string): string => readFileSync(join('kits', kit, file), 'utf8');

  test('has a core of 250 lines at most', () => {
    expect(read(core).split('\n').length - 1).toBeLessThanOrEqual(250);
  });

  test("has the project's version and licence", () => {
    expect(read('LICENSE')).toBe(readFileSync('LICENSE', 'utf8'));
    for (const file of [core, metadata]) {
      expect(/\bversion\W{1,8}(\d+\.\d+\.\d+)/i.exec(read(file).replace(/<\?xml.*|<modelVersion.*/g, ''))?.[1]).toBe(
        manifest.version,
      );
    }
  });

  test('passes the vectors, its own tests and all scenarios', { timeout: 900_000 }, async () => {
    // Here, each client is tried against only 8 cores; `npm run kits` uses 100.
    const args = ['kits/main.ts', '--runs', '8', kit];
    const env = { ...process.env, SIDECAR_PROGRAM: builtProgram };
    const { stdout } = await run(process.execPath, args, { env, timeout: 890_000 }).catch(
      (error: { stdout: string }) => error,
    );
    expect(stdout.trimEnd()).toMatch(/\n1 kits passed, 0 failed, 0 absent$/);
  });
});

test('the metadata of the kits for Python, Java and C# are well-formed, and name only files that exist', async () => {
  const program = `
import json, os, sys, tomllib, xml.etree.ElementTree as xml
project = tomllib.load(open("kits/python/pyproject.toml", "rb"))
modules = project["tool"]["setuptools"]["py-modules"]
pom = xml.parse("kits/java/pom.xml").getroot()
maven = {"m": "http://maven.apache.org/POM/4.0.0"}
csproj = xml.parse("kits/csharp/EnvelopeSidecar.Kit.csproj").getroot()
compiled = [item.get("Include") for item in csproj.iter("Compile")]
json.dump({
  "versions": [project["project"]["version"], pom.find("m:version", maven).text, csproj.find("PropertyGroup/Version").text],
  "missing": [path for path in [f"kits/python/{name}.py" for name in modules] + [f"kits/csharp/{name}" for name in compiled]
              if not os.path.exists(path)],
  "files": len(modules) + len(compiled),
}, sys.stdout)`;
  const { stdout } = await run('python3', ['-c', program]);
  const { version } = manifest;
  expect(JSON.parse(stdout)).toEqual({ versions: [version, version, version], missing: [], files: 4 });
});

test('a program with a mistake fails the test vectors', async () => {
  const program = `
    const { createDecipheriv } = require('node:crypto');
    require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
      const { key, iv, data } = JSON.parse(line);
      let outcome = { error: { code: 'cannot' } };
      try {
        const decipher = createDecipheriv('aes-256-cbc', key, iv.slice(0, 16));
        if (data) outcome = { plaintext: decipher.update(data, 'hex', 'utf8') + decipher.final('utf8') };
      } catch {}
      console.log(JSON.stringify(outcome));
    });`;
  const args = ['kits/conformance/main.ts', `node -e '${program.replaceAll("'", String.raw`'\''`)}'`];
  const { stdout, code } = await run(process.execPath, args).then(
    (done) => ({ ...done, code: 0 }),
    (error: { stdout: string; code: number }) => error,
  );
  expect(code).toBe(1);
  expect(stdout).toContain("failed: seal: the demo's charge");
  expect(stdout).toContain('failed: refuse: not UTF-8: a letter in Latin-1');
  expect(stdout).not.toContain("failed: open: the demo's charge:");
});
