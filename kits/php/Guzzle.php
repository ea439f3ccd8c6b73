<?php

declare(strict_types=1);

/** Guzzle 7 for merchants of envelope-sidecar: seals requests, opens responses, throws typed errors. See README.md. */

namespace EnvelopeSidecar;

use GuzzleHttp\Client;
use GuzzleHttp\Exception\TransferException;
use GuzzleHttp\HandlerStack;
use GuzzleHttp\Promise\PromiseInterface;
use GuzzleHttp\Psr7\StreamDecoratorTrait;
use GuzzleHttp\Psr7\Utils;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\StreamInterface;

final class Guzzle
{
    /**
     * A client that throws EnvelopeException (nothing was sent), Refusal or OutcomeUnknown. It is a PSR-18 client too.
     *
     * @param callable(): Envelope $envelope the credentials to use, called for each request
     * @param array<string, mixed> $guzzle options of the client, such as `base_uri` and `headers`
     * @param mixed ...$options of Exchange: prefixes, migrating, maxBytes, retries, checkId
     */
    public static function client(callable $envelope, array $guzzle = [], mixed ...$options): Client
    {
        $exchange = new Exchange($envelope(...), Utils::streamFor(...), ...$options);
        $stack = $guzzle['handler'] ?? HandlerStack::create();
        $stack->push(self::middleware($exchange), 'envelope');
        // The middleware judges statuses.
        $defaults = ['timeout' => 60, 'connect_timeout' => 10];
        return new Client(['handler' => $stack, 'allow_redirects' => false, 'http_errors' => false] + $guzzle + $defaults);
    }

    private static function middleware(Exchange $exchange): \Closure
    {
        return static fn (callable $handler): \Closure => static function (RequestInterface $request, array $options) use ($exchange, $handler): PromiseInterface {
            [$sealed, $envelope] = $exchange->seal($request);
            // libcurl repeats a request by itself if a connection that it used before has died.
            $options['curl'] = ($options['curl'] ?? []) + [CURLOPT_FRESH_CONNECT => true, CURLOPT_FORBID_REUSE => true];
            $options['allow_redirects'] = false;
            $send = static function (int $attempt) use (&$send, $exchange, $handler, $sealed, $envelope, $options): PromiseInterface {
                $sink = new BoundedStream(Utils::streamFor(''), $exchange->maxBytes);
                $sealed->getBody()->rewind();
                return $handler($sealed, ['sink' => $sink] + $options)->then(
                    static fn (ResponseInterface $response): ResponseInterface => $exchange->read($sealed, $response, $envelope),
                    static function (mixed $error) use ($sink): never {
                        $reason = $sink->isFull ? 'too_large' : 'lost';
                        throw $error instanceof TransferException ? new OutcomeUnknown($reason, null, $error) : $error;
                    },
                )->otherwise(static function (mixed $error) use (&$send, $exchange, $attempt): PromiseInterface {
                    $wait = $error instanceof \Throwable ? $exchange->waitAfter($error, $attempt) : null;
                    if ($wait === null) {
                        throw $error;
                    }
                    sleep($wait);
                    return $send($attempt + 1);
                });
            };
            return $send(0);
        };
    }
}

/** Accepts at most `maxBytes`. */
final class BoundedStream implements StreamInterface
{
    use StreamDecoratorTrait;

    public bool $isFull = false;
    /** @var StreamInterface */
    private $stream;

    public function __construct(StreamInterface $stream, private readonly int $maxBytes)
    {
        $this->stream = $stream;
    }

    public function write($string): int
    {
        $this->isFull = $this->isFull || $this->getSize() + strlen($string) > $this->maxBytes;
        return $this->isFull ? 0 : $this->stream->write($string);
    }
}
