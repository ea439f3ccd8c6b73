<?php

declare(strict_types=1);

/** Runs this kit for kits/conformance: one JSON object per line on stdin, one outcome per line on stdout. */

namespace EnvelopeSidecar;

use GuzzleHttp\Client;
use GuzzleHttp\Psr7\Request;
use GuzzleHttp\Psr7\Utils;

// This is Debian's autoloader. An application has Composer's.
require_once 'GuzzleHttp/autoload.php';
require_once __DIR__ . '/Envelope.php';
require_once __DIR__ . '/Exchange.php';
require_once __DIR__ . '/Guzzle.php';
require_once __DIR__ . '/Psr18.php';

/** @param array<string, mixed> $operation */
function envelopeOf(array $operation): Envelope
{
    return new Envelope($operation['key'], $operation['iv'], $operation['key_text'] ?? 'text', $operation['encoding'] ?? 'hex');
}

/** @param array<string, mixed> $operation */
function call(array $operation): array
{
    /** One client for each set of options. It is kept during rotations. */
    static $clients = [];
    static $current;
    $current = envelopeOf($operation);
    $envelope = static function () use (&$current): Envelope {
        return $current;
    };
    $timeout = ($operation['timeout_ms'] ?? 10_000) / 1000;
    $options = [
        'migrating' => $operation['migrating'] ?? false,
        'maxBytes' => $operation['max_bytes'] ?? 65_536,
        'checkId' => !($operation['any_id'] ?? false),
    ];
    $clients[json_encode([$operation['client'], $timeout, $options])] ??= match ($operation['client']) {
        'guzzle' => Guzzle::client($envelope, ['timeout' => $timeout], ...$options),
        'psr18' => new Psr18(
            new Client(['timeout' => $timeout, 'curl' => [CURLOPT_FRESH_CONNECT => true, CURLOPT_FORBID_REUSE => true]]),
            new Exchange($envelope, Utils::streamFor(...), ...$options),
        ),
    };
    $client = $clients[json_encode([$operation['client'], $timeout, $options])];
    $request = new Request($operation['method'], $operation['url'], $operation['headers'] ?? [], $operation['body'] ?? null);
    $response = $client->sendRequest($request);
    $type = $response->hasHeader('Content-Type') ? $response->getHeaderLine('Content-Type') : null;
    return ['status' => $response->getStatusCode(), 'type' => $type, 'body' => (string) $response->getBody()];
}

/** @return list<string> */
function shown(Envelope $envelope): array
{
    ob_start();
    var_dump($envelope);
    $texts = [(string) ob_get_clean(), (string) $envelope, print_r($envelope, true), var_export($envelope, true)];
    $texts[] = json_encode($envelope, JSON_THROW_ON_ERROR) . print_r((array) $envelope, true);
    try {
        $texts[] = serialize($envelope);
    } catch (\LogicException $error) {
        $texts[] = $error->getMessage();
    }
    return $texts;
}

/** @param array<string, mixed> $operation */
function run(array $operation): array
{
    return match ($operation['op']) {
        'clients' => ['clients' => ['guzzle', 'psr18']],
        'selftest' => ['passed' => selftest()],
        'call' => call($operation),
        'seal' => ['data' => envelopeOf($operation)->seal($operation['plaintext'])],
        'open' => ['plaintext' => envelopeOf($operation)->open($operation['data'])],
        'fingerprint' => ['fingerprint' => envelopeOf($operation)->fingerprint],
        'show' => ['shown' => shown(envelopeOf($operation))],
        'compat' => [
            'plaintext' => envelopeOf($operation)->compat()->open($operation['data']),
            'data' => envelopeOf($operation)->compat()->seal("\xff"),
        ],
        default => ['error' => ['type' => 'driver', 'code' => 'unknown_op']],
    };
}

function errorIn(\Throwable $error): array
{
    $message = $error->getMessage();
    return match (true) {
        $error instanceof EnvelopeException => ['type' => 'envelope', 'code' => $error->name, 'message' => $message],
        $error instanceof Refusal => [
            'type' => 'refusal',
            'status' => $error->status,
            'code' => $error->name,
            'hint' => $error->hint,
            'request_id' => $error->requestId,
            'retry_after' => $error->retryAfter,
            'forwarded' => $error->forwarded,
            'message' => $message,
        ],
        $error instanceof OutcomeUnknown => [
            'type' => 'outcome_unknown',
            'status' => $error->status,
            'code' => $error->reason,
            'request_id' => $error->requestId,
            'refusal' => $error->getPrevious() instanceof Refusal ? errorIn($error->getPrevious()) : null,
            'message' => $message,
        ],
        default => ['type' => 'other', 'message' => (string) $error],
    };
}

while (($line = fgets(STDIN)) !== false) {
    try {
        $outcome = run(json_decode($line, true, 512, JSON_THROW_ON_ERROR));
    } catch (\Throwable $error) {
        $outcome = ['error' => errorIn($error)];
    }
    echo json_encode($outcome, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
