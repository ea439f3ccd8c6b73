<?php

declare(strict_types=1);

/** Tests what the vectors cannot express. `php kits/php/test.php`. */

namespace EnvelopeSidecar;

require __DIR__ . '/Envelope.php';

function check(string $name, bool $right): void
{
    if (!$right) {
        fwrite(STDERR, "failed: $name\n");
        exit(1);
    }
}

function codeOf(callable $run): ?string
{
    try {
        $run();
    } catch (EnvelopeException $error) {
        return $error->name;
    }
    return null;
}

$demo = ['demo-key-of-acme-not-a-secret-32', 'demo-iv-of-acme-'];
$envelope = new Envelope(...$demo);
check('the self-test passes', selftest() === 8);
$value = ['amount' => 1500, 'name' => 'Zoë', 'list' => [null, true]];
check('a value comes back as it was', $envelope->openJson($envelope->sealJson($value)) === $value);
check('white space around data', $envelope->openBody(' {"data" : "' . $envelope->seal('{}') . "\"}\n") === '{}');
check('what has no JSON', codeOf(fn () => $envelope->sealJson(NAN)) === 'not_json');
check('Latin-1', codeOf(fn () => $envelope->seal("\"\xe9\"")) === 'not_utf8');
check('not JSON', codeOf(fn () => $envelope->openJson($envelope->seal('{"a":'))) === 'not_json');
check('a byte order mark is kept', $envelope->open($envelope->seal("\u{feff}{}")) === "\u{feff}{}");
foreach (['{}', '[]', '{"data":1}', '{"data":"00","a":1}', '{"data":"00","data":"00"}', '{"Data":"00"}', ''] as $body) {
    check("$body is no envelope", codeOf(fn () => $envelope->openBody($body)) === 'malformed');
}
check('bytes as a key', codeOf(fn () => new Envelope(random_bytes(31) . "\xff", $demo[1])) === 'key_decoded');
check('hex2bin that failed', codeOf(fn () => new Envelope(null, $demo[1])) === 'key_empty');
check('a large body', $envelope->openBody($envelope->sealBody(str_repeat('x', 3_000_000))) !== '');
