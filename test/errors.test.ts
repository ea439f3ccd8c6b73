import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { findRefusal, refusals, type RefusalCode } from '../src/errors.ts';

const codes = Object.keys(refusals) as RefusalCode[];

/** What clients rely on: each code with its status, and whether an encrypting account gets it sealed. */
const contract = {
  missing_api_key: '401 plain',
  malformed_api_key: '401 plain',
  invalid_api_key: '401 plain',
  environment_mismatch: '403 plain',
  key_not_permitted: '403 sealed',
  account_inactive: '403 sealed',
  method_not_allowed: '405 sealed',
  envelope_required: '400 plain',
  envelope_malformed: '400 plain',
  decryption_failed: '400 plain',
  encryption_not_supported: '400 plain',
  unsupported_content_encoding: '415 sealed',
  body_too_large: '413 sealed',
  ambiguous_request: '400 plain',
  malformed_request: '400 plain',
  invalid_cipher_test: '400 plain',
  request_timeout: '408 plain',
  unknown_host: '421 plain',
  headers_too_large: '431 plain',
  too_many_attempts: '429 plain, Retry-After',
  overloaded: '503 plain, Retry-After',
  accounts_unavailable: '503 plain, Retry-After',
  upstream_unavailable: '502 sealed',
  upstream_timeout: '504 sealed',
  sealing_failed: '502 plain',
  internal_error: '500 sealed',
};

/** The sections of docs/errors.md: the heading, the line below the heading, and the text. */
const sections = readFileSync(new URL('../docs/errors.md', import.meta.url), 'utf8')
  .split(/^#{2,3} /m)
  .slice(1)
  .map((section) => {
    const [heading = '', facts = '', ...paragraphs] = section.trim().split('\n\n');
    return { heading, facts, text: paragraphs.join(' ') };
  })
  .filter(({ facts }) => facts !== '');

test('the codes, their statuses and whether they are sealed are those that clients rely on', () => {
  const table = codes.map((code) => {
    const { status, sealed, retryAfter } = findRefusal(code);
    return [code, `${status} ${sealed ? 'sealed' : 'plain'}${retryAfter === undefined ? '' : ', Retry-After'}`];
  });
  expect(Object.fromEntries(table)).toEqual(contract);
});

test('docs/errors.md has one section for each code, and no other', () => {
  expect(sections.map(({ heading }) => heading).toSorted()).toEqual(codes.toSorted());
});

describe.each(codes)('the section %s', (code) => {
  const section = sections.find(({ heading }) => heading === code);

  test('agrees with the table of refusals', () => {
    const { status, title, sealed, retryAfter, forwarded } = findRefusal(code);
    const facts = [`\`${status}\``, title, sealed ? 'sealed' : 'plain'];
    if (retryAfter !== undefined) facts.push('`Retry-After`');
    if (forwarded !== undefined) facts.push(`\`forwarded: ${forwarded}\``);
    expect(section?.facts).toBe(facts.join(' · '));
  });

  test('explains the cause and what to do', () => {
    expect(section?.text.split(/\.\s/).length).toBeGreaterThanOrEqual(2);
  });
});

describe.each(codes)('the texts of %s', (code) => {
  const { title, detail } = findRefusal(code);

  test('are a title in the form of a heading and a detail in the form of a sentence', () => {
    expect(title).toMatch(/^[A-Z][A-Za-z ]+$/);
    expect(detail).toMatch(/^[A-Z].+[^ ]\.$/);
  });

  test('are printable ASCII', () => {
    expect(title + detail).toMatch(/^[\x20-\x7e]+$/);
  });
});
