<?php

declare(strict_types=1);

/** Any PSR-18 client for merchants of envelope-sidecar. See README.md. */

namespace EnvelopeSidecar;

use Psr\Http\Client\ClientExceptionInterface;
use Psr\Http\Client\ClientInterface;
use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;

/**
 * Throws EnvelopeException (nothing was sent), Refusal or OutcomeUnknown. Time-outs, redirects and the reuse of
 * connections are up to the wrapped client: set a time-out, follow no redirects, and turn its retries off.
 */
final class Psr18 implements ClientInterface
{
    public function __construct(private readonly ClientInterface $client, private readonly Exchange $exchange)
    {
    }

    public function sendRequest(RequestInterface $request): ResponseInterface
    {
        [$sealed, $envelope] = $this->exchange->seal($request);
        for ($attempt = 0;; $attempt++) {
            try {
                return $this->exchange->read($sealed, $this->sent($sealed), $envelope);
            } catch (Refusal $refusal) {
                $wait = $this->exchange->waitAfter($refusal, $attempt) ?? throw $refusal;
                sleep($wait);
            }
        }
    }

    private function sent(RequestInterface $request): ResponseInterface
    {
        try {
            return $this->client->sendRequest($request);
        } catch (ClientExceptionInterface $error) {
            throw new OutcomeUnknown('lost', null, $error);
        }
    }
}
