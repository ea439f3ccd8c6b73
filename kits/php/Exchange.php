<?php

declare(strict_types=1);

/** The rules of an exchange with envelope-sidecar, for PSR-7 messages of any client. */

namespace EnvelopeSidecar;

use Psr\Http\Message\RequestInterface;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\StreamInterface;

/** The sidecar refused the request. Decide by `name`, never by the status. */
final class Refusal extends \RuntimeException implements \Psr\Http\Client\ClientExceptionInterface
{
    /** The `code` of the problem document. PHP's exceptions use that name for something else. */
    public readonly string $name;
    public readonly ?string $hint;
    public readonly string $requestId;
    /** `no` if the core has not seen the request, otherwise `maybe`. */
    public readonly string $forwarded;

    /** @param array<string, mixed> $problem */
    public function __construct(public readonly int $status, array $problem, public readonly ?int $retryAfter)
    {
        $this->name = $problem['code'];
        $this->hint = is_string($problem['hint'] ?? null) ? $problem['hint'] : null;
        $this->requestId = $problem['request_id'];
        $this->forwarded = ($problem['forwarded'] ?? null) === 'no' ? 'no' : 'maybe';
        $detail = is_string($problem['detail'] ?? null) ? $problem['detail'] : '';
        parent::__construct("$status {$this->name}: " . ($this->hint ?? $detail));
    }
}

/** The payment may have been made: look it up by your reference before you send it again. */
final class OutcomeUnknown extends \RuntimeException implements \Psr\Http\Client\ClientExceptionInterface
{
    public readonly ?int $status;
    public readonly ?string $requestId;

    /** @param string $reason lost, swapped, status, refused (by a Refusal), unsealed, not_opened or too_large */
    public function __construct(
        public readonly string $reason,
        ?ResponseInterface $response = null,
        ?\Throwable $previous = null,
    ) {
        $this->status = $response?->getStatusCode();
        $this->requestId = $response !== null && $response->hasHeader('X-Request-Id')
            ? $response->getHeaderLine('X-Request-Id')
            : null;
        parent::__construct(rtrim("the outcome is unknown: $reason, {$this->status}", ', '), 0, $previous);
    }
}

final class Exchange
{
    /** If `Retry-After` exceeds this many seconds, waiting is left to the caller. */
    private const LONGEST_WAIT = 60;

    /**
     * @param \Closure(): Envelope $envelope the credentials to use; called for each request, so that a rotation needs no
     *   restart
     * @param \Closure(string): StreamInterface $stream
     * @param list<string> $prefixes paths whose bodies are sealed; the two test endpoints are never among them
     * @param bool $migrating whether a 2xx may be unsealed; use this only while an account starts or stops encrypting
     * @param int $maxBytes the longest body of a response
     * @param int $retries the maximum number of times that a request is sent again if the core has not seen it
     * @param bool $checkId whether a response must have its request's X-Request-Id; false behind a gateway that replaces it
     */
    public function __construct(
        private readonly \Closure $envelope,
        private readonly \Closure $stream,
        private readonly array $prefixes = ['/api/s2s/'],
        private readonly bool $migrating = false,
        public readonly int $maxBytes = 16_777_216,
        private readonly int $retries = 2,
        private readonly bool $checkId = true,
    ) {
    }

    /**
     * The request to send, and the envelope that opens its response, which is null if nothing is sealed.
     *
     * @return array{RequestInterface, ?Envelope}
     * @throws EnvelopeException
     */
    public function seal(RequestInterface $request): array
    {
        if (!$request->hasHeader('X-Request-Id')) {
            $request = $request->withHeader('X-Request-Id', bin2hex(random_bytes(16)));
        }
        $envelope = ($this->envelope)();
        if (!$this->isEnveloped($request->getUri()->getPath())) {
            return [$request, null];
        }
        $request = $request->withHeader('Envelope-Credentials', $envelope->fingerprint);
        $text = (string) $request->getBody();
        if ($text !== '') {
            $body = $envelope->sealBody($text);
            $request = $request
                ->withBody(($this->stream)($body))
                ->withHeader('Content-Type', 'application/json')
                ->withHeader('Content-Length', (string) strlen($body))
                ->withoutHeader('Transfer-Encoding');
        }
        return [$request, $request->getMethod() === 'HEAD' ? null : $envelope];
    }

    /**
     * The response, opened.
     *
     * @throws Refusal
     * @throws OutcomeUnknown
     */
    public function read(RequestInterface $request, ResponseInterface $response, ?Envelope $envelope): ResponseInterface
    {
        $status = $response->getStatusCode();
        $ok = $status >= 200 && $status < 300;
        $content = $this->contentOf($response);
        $type = $response->getHeaderLine('Content-Type');
        if ($this->checkId && ($ok || $response->hasHeader('Envelope') || self::isProblem($type))) {
            // After one response too many on a connection, each request gets the response to the previous one.
            $id = $response->getHeaderLine('X-Request-Id');
            if ($id !== '' && $id !== $request->getHeaderLine('X-Request-Id')) {
                throw new OutcomeUnknown('swapped', $response);
            }
        }
        $sealed = $envelope !== null && strtolower($response->getHeaderLine('Envelope')) === 'sealed';
        $sealed = $sealed && $status !== 204 && $status !== 304;
        if ($envelope !== null && $sealed) {
            try {
                $content = $envelope->openBody($content);
            } catch (EnvelopeException $error) {
                throw new OutcomeUnknown('not_opened', $response, $error);
            }
            $type = $response->getHeaderLine('Envelope-Content-Type') ?: 'application/json';
        }
        $problem = $status >= 400 && self::isProblem($type) ? self::problemIn($content) : null;
        if ($problem !== null) {
            $after = $response->getHeaderLine('Retry-After');
            $refusal = new Refusal($status, $problem, preg_match('/^\d{1,6}$/D', $after) === 1 ? (int) $after : null);
            throw $status >= 500 && $refusal->forwarded !== 'no'
                ? new OutcomeUnknown('refused', $response, $refusal)
                : $refusal;
        }
        if (in_array($status, [502, 503, 504], true)) {
            throw new OutcomeUnknown('status', $response);
        }
        if ($envelope !== null && $ok && !$sealed && $content !== '' && !$this->migrating) {
            throw new OutcomeUnknown('unsealed', $response);
        }
        $response = $response->withBody(($this->stream)($content));
        return $sealed
            ? $response->withHeader('Content-Type', $type)->withoutHeader('Envelope-Content-Type')->withoutHeader('Content-Length')
            : $response;
    }

    /** Seconds to wait before the request is sent again; null if it is not. */
    public function waitAfter(\Throwable $error, int $attempt): ?int
    {
        $again = $error instanceof Refusal && $error->forwarded === 'no' && $attempt < $this->retries;
        return $again && $error->retryAfter !== null && $error->retryAfter <= self::LONGEST_WAIT ? $error->retryAfter : null;
    }

    /** Matches paths as the sidecar does, ignoring case and a slash at the end. */
    private function isEnveloped(string $path): bool
    {
        $path = rtrim(strtolower($path), '/');
        $matching = array_filter($this->prefixes, static fn (string $prefix): bool => str_starts_with("$path/", $prefix));
        return $matching !== [] && preg_match('#^/api/s2s/aes-(?:en|de)crypt$#D', $path) !== 1;
    }

    private function contentOf(ResponseInterface $response): string
    {
        $body = $response->getBody();
        $content = '';
        try {
            while (!$body->eof() && strlen($content) <= $this->maxBytes) {
                $content .= $body->read(65_536);
            }
        } catch (\RuntimeException $error) {
            throw new OutcomeUnknown('lost', $response, $error);
        }
        if (strlen($content) > $this->maxBytes) {
            throw new OutcomeUnknown('too_large', $response);
        }
        return $content;
    }

    private static function isProblem(string $type): bool
    {
        return preg_match('#^application/problem\+json\b#i', $type) === 1;
    }

    /** @return ?array<string, mixed> null if this is not a problem document from the sidecar */
    private static function problemIn(string $content): ?array
    {
        $problem = json_decode($content, true);
        $isOurs = is_array($problem) && is_string($problem['code'] ?? null) && is_string($problem['request_id'] ?? null);
        return $isOurs ? $problem : null;
    }
}
