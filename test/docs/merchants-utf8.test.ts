import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { describeUnless } from '../support/describe-unless.ts';
import { missingTools } from '../support/tools.ts';

const run = promisify(execFile);

/** The expression for strict decoding that docs/merchants.md gives for each language. */
const expressions = new Map(
  [...readFileSync('docs/merchants.md', 'utf8').matchAll(/^\| (\S+) +\|[^|]+\| `([^`]+)` +\|$/gm)].map(
    ([, language = '', expression = '']) => [language, expression],
  ),
);

/** A program that decodes each of its hex arguments with an expression, and prints `valid` or `invalid` for it. */
interface Program {
  readonly file: string;
  readonly commands: readonly string[];
  readonly source: (expression: string) => string;
}

const programs: Readonly<Record<string, Program>> = {
  JavaScript: {
    file: 'utf8.mjs',
    commands: ['node utf8.mjs'],
    source: (expression) => `for (const hex of process.argv.slice(2)) {
      const bytes = Buffer.from(hex, 'hex');
      try { ${expression}; console.log('valid'); } catch { console.log('invalid'); }
    }`,
  },
  PHP: {
    file: 'utf8.php',
    commands: ['php utf8.php'],
    source: (expression) => `<?php foreach (array_slice($argv, 1) as $hex) {
      $text = hex2bin($hex);
      echo (${expression}) ? "valid\n" : "invalid\n";
    }`,
  },
  Python: {
    file: 'utf8_strict.py',
    commands: ['python3 utf8_strict.py'],
    source: (expression) => `import sys
for value in sys.argv[1:]:
    data = bytes.fromhex(value)
    try:
        ${expression}
        print("valid")
    except UnicodeDecodeError:
        print("invalid")
`,
  },
  Java: {
    file: 'Utf8.java',
    commands: ['java Utf8.java'],
    source: (expression) => `import static java.nio.charset.StandardCharsets.UTF_8;
import java.nio.ByteBuffer;
class Utf8 {
  public static void main(String[] args) {
    for (String hex : args) {
      byte[] bytes = java.util.HexFormat.of().parseHex(hex);
      try { ${expression}; System.out.println("valid"); }
      catch (java.nio.charset.CharacterCodingException e) { System.out.println("invalid"); }
    }
  }
}`,
  },
  'C#': {
    file: 'Utf8.cs',
    commands: ['mcs Utf8.cs', 'mono Utf8.exe'],
    source: (expression) => `using System; using System.Text;
class Utf8 {
  static void Main(string[] args) {
    foreach (var hex in args) {
      var bytes = new byte[hex.Length / 2];
      for (int i = 0; i < bytes.Length; i++) bytes[i] = Convert.ToByte(hex.Substring(2 * i, 2), 16);
      try { ${expression}; Console.WriteLine("valid"); } catch (DecoderFallbackException) { Console.WriteLine("invalid"); }
    }
  }
}`,
  },
  Go: {
    file: 'utf8.go',
    commands: ['go run utf8.go'],
    source: (expression) => `package main
import ("encoding/hex"; "fmt"; "os"; "unicode/utf8")
func main() {
	for _, text := range os.Args[1:] {
		data, _ := hex.DecodeString(text)
		if ${expression} { fmt.Println("valid") } else { fmt.Println("invalid") }
	}
}`,
  },
  Ruby: {
    file: 'utf8.rb',
    commands: ['ruby utf8.rb'],
    source: (expression) => `ARGV.each do |hex|
  text = [hex].pack('H*')
  puts((${expression}) ? 'valid' : 'invalid')
end`,
  },
};

const samples: readonly (readonly [hex: string, outcome: 'valid' | 'invalid'])[] = [
  [Buffer.from('{"name":"Zoë € 😀"}').toString('hex'), 'valid'],
  ['c328', 'invalid'],
  ['41ff42', 'invalid'],
  ['e282', 'invalid'],
  // A surrogate, NUL encoded in two bytes, and a code point beyond the last one.
  ['eda080', 'invalid'],
  ['c080', 'invalid'],
  ['f4908080', 'invalid'],
];

test('the page has an expression for each language that is tried here', () => {
  expect([...expressions.keys()].toSorted()).toEqual(Object.keys(programs).toSorted());
});

for (const [language, { file, commands, source }] of Object.entries(programs)) {
  const missing = missingTools(...commands.map((command) => command.split(' ')[0] ?? ''));
  describeUnless(missing, `the strict decoding in ${language}`, () => {
    test('accepts UTF-8 and nothing else', { timeout: 60_000 }, async () => {
      const cwd = mkdtempSync(join(tmpdir(), 'utf8-'));
      onTestFinished(() => rmSync(cwd, { recursive: true }));
      writeFileSync(join(cwd, file), source(expressions.get(language) ?? ''));
      let printed = '';
      for (const [index, command] of commands.entries()) {
        const [program = '', ...args] = command.split(' ');
        const given = index === commands.length - 1 ? samples.map(([hex]) => hex) : [];
        printed = (await run(program, [...args, ...given], { cwd })).stdout;
      }
      expect(printed.trim().split('\n')).toEqual(samples.map(([, outcome]) => outcome));
    });
  });
}
