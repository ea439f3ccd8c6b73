<?php

declare(strict_types=1);

/**
 * Envelopes of envelope-sidecar: AES-256-CBC with PKCS#7 padding, in hex or base64.
 *
 * The core of the kit: one file that needs only PHP's openssl and may be copied. Version 0.2.0, MIT licence.
 */

namespace EnvelopeSidecar;

/** Credentials that cannot be right, text that cannot be sealed, or data that does not open. */
final class EnvelopeException extends \RuntimeException
{
    /** @param string $name such as `key_quoted`, `malformed` or `decryption_failed` */
    public function __construct(public readonly string $name, string $message)
    {
        parent::__construct("$name: $message");
    }
}

/** Seals and opens with the credentials of one account in one environment. Printing it shows neither key nor IV. */
final class Envelope implements \JsonSerializable
{
    /** The messages for bad credentials, by code. No message contains any part of a key, an IV or a plaintext. */
    private const FLAWS = [
        'empty' => 'is empty',
        'decoded' => 'was decoded: pass the string as you were given it',
        'nul' => 'contains NUL bytes: pass the string as you were given it',
        'quoted' => 'is in quotes: remove them',
        'space' => 'begins or ends with white space: remove it',
        'pem' => 'is a PEM file: pass the string of 32 characters',
        'api_key' => 'is an API key: pass the encryption key and its IV',
        'hex' => 'is in hex: pass the string as you were given it',
        'base64' => 'is in base64: set the key text to base64, or pass the string of 32 characters',
        'not_base64' => 'is not base64, which the key text says',
        'length' => 'has the wrong length: a key has 32 bytes, an IV 16',
    ];

    /** Names the credentials without showing them: the first 16 hex digits of SHA-256(key bytes, IV bytes). */
    public readonly string $fingerprint;
    /** Keys and IVs by envelope. It is static, because var_export and dump show all properties of an object. */
    private static ?\WeakMap $pairs = null;

    /** @throws EnvelopeException if the key or the IV cannot be right; its name is the mistake */
    public function __construct(
        #[\SensitiveParameter] ?string $key,
        #[\SensitiveParameter] ?string $iv,
        string $keyText = 'text',
        private readonly string $encoding = 'hex',
    ) {
        in_array($keyText, ['text', 'base64'], true) || throw new \InvalidArgumentException('keyText: text or base64');
        in_array($encoding, ['hex', 'base64'], true) || throw new \InvalidArgumentException('encoding: hex or base64');
        [self::refuseFlaws('key', $key), self::refuseFlaws('iv', $iv)];
        $pair = $keyText === 'base64' ? self::readBase64($key, $iv) : self::readText($key, $iv);
        self::$pairs ??= new \WeakMap();
        self::$pairs[$this] = $pair;
        $this->fingerprint = substr(hash('sha256', $pair[0] . $pair[1]), 0, 16);
    }

    /** The ciphertext of a JSON text, without the object around it. */
    public function seal(#[\SensitiveParameter] string $text): string
    {
        preg_match('//u', $text) === 1 || throw new EnvelopeException('not_utf8', 'the text is not UTF-8');
        [$key, $iv] = self::$pairs[$this];
        $ciphertext = openssl_encrypt($text, 'aes-256-cbc', $key, OPENSSL_RAW_DATA, $iv);
        $ciphertext !== false || throw new EnvelopeException('not_sealed', 'openssl_encrypt failed');
        return $this->encoding === 'hex' ? bin2hex($ciphertext) : base64_encode($ciphertext);
    }

    /** @throws EnvelopeException `not_json` for a value that JSON cannot express */
    public function sealJson(#[\SensitiveParameter] mixed $value): string
    {
        try {
            return $this->seal(json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE));
        } catch (\JsonException) {
            throw new EnvelopeException('not_json', 'the value has no JSON');
        }
    }

    /** The text that was sealed, from hex or base64. @throws EnvelopeException `malformed` or `decryption_failed` */
    public function open(string $data): string
    {
        $ciphertext = self::decode($data);
        [$key, $iv] = self::$pairs[$this];
        $plaintext = openssl_decrypt($ciphertext, 'aes-256-cbc', $key, OPENSSL_RAW_DATA, $iv);
        if ($plaintext === false || preg_match('//u', $plaintext) !== 1) {
            // The reason would reveal whether the padding or the text is wrong, and is of no use.
            throw new EnvelopeException('decryption_failed', 'wrong key or IV, or the data was changed on the way');
        }
        return $plaintext;
    }

    /** Returns objects as arrays. @throws EnvelopeException as `open`, or `not_json` */
    public function openJson(string $data): mixed
    {
        try {
            return json_decode($this->open($data), true, 512, JSON_THROW_ON_ERROR);
        } catch (\JsonException) {
            throw new EnvelopeException('not_json', 'the plaintext is not JSON');
        }
    }

    /** The body of a request: `{"data":"…"}`. */
    public function sealBody(#[\SensitiveParameter] string $text): string
    {
        return '{"data":"' . $this->seal($text) . '"}';
    }

    /** The text in the body of a response: an object whose only member is `data`. */
    public function openBody(string $body): string
    {
        if (preg_match('/^\s*\{\s*"data"\s*:\s*"([0-9A-Za-z+\/=]*+)"\s*\}\s*$/D', $body, $match) !== 1) {
            throw new EnvelopeException('malformed', 'the body is not {"data":"…"}');
        }
        return $this->open($match[1]);
    }

    public function compat(): Compat { return new Compat($this); }

    public function __toString(): string { return "Envelope({$this->fingerprint})"; }
    public function jsonSerialize(): string { return (string) $this; }
    public function __debugInfo(): array { return ['fingerprint' => $this->fingerprint]; }
    private function __clone() {}
    public function __serialize(): array { throw new \LogicException('an Envelope is not serialised'); }

    /** @return array{string, string} */
    private static function readText(string $key, string $iv): array
    {
        preg_match('/^.{0,16}/su', $iv, $match);
        match (true) {
            strlen($key) === 16 && strlen($iv) === 32 => self::swapped(),
            preg_match('/^[0-9a-f]{64}$/Di', $key) === 1 => self::refuse('key', 'hex'),
            preg_match('/^[A-Za-z0-9+\/]{43}=$/D', $key) === 1 => self::refuse('key', 'base64'),
            strlen($key) === 24 => self::refuse('key', 'decoded'),
            strlen($key) !== 32 => self::refuse('key', 'length'),
            $key === $iv => throw new EnvelopeException('iv_is_key', 'the IV is the key'),
            // Only the hex of printable text is refused, because other hex digits may well be an IV.
            preg_match('/^(?:[2-6][0-9a-f]|7[0-9a-e]){16}$/Di', $iv) === 1 => self::refuse('iv', 'hex'),
            strlen($iv) === 12 => self::refuse('iv', 'decoded'),
            strlen($match[0]) !== 16 => self::refuse('iv', 'length'),
            default => null,
        };
        return [$key, $match[0]];
    }

    /** @return array{string, string} */
    private static function readBase64(string $key, string $iv): array
    {
        [$keyBytes, $ivBytes] = [self::strictBase64($key), self::strictBase64($iv)];
        match (true) {
            [strlen($keyBytes ?? ''), strlen($ivBytes ?? '')] === [16, 32] => self::swapped(),
            $keyBytes === null => self::refuse('key', 'not_base64'),
            strlen($keyBytes) !== 32 => self::refuse('key', 'length'),
            $ivBytes === null => self::refuse('iv', 'not_base64'),
            strlen($ivBytes) !== 16 => self::refuse('iv', 'length'),
            default => null,
        };
        return [$keyBytes, $ivBytes];
    }

    private static function refuseFlaws(string $name, #[\SensitiveParameter] ?string $value): void
    {
        match (true) {
            $value === null || $value === '' => self::refuse($name, 'empty'),
            preg_match('//u', $value) !== 1 || str_contains($value, "\u{fffd}") => self::refuse($name, 'decoded'),
            str_contains($value, "\0") => self::refuse($name, 'nul'),
            preg_match('/^(["\']).*\1$/Ds', $value) === 1 => self::refuse($name, 'quoted'),
            trim($value, " \t\r\n") !== $value => self::refuse($name, 'space'),
            str_starts_with($value, '-----BEGIN') => self::refuse($name, 'pem'),
            preg_match('/^[ps]k_(?:test|live)_/', $value) === 1 => self::refuse($name, 'api_key'),
            default => null,
        };
    }

    private static function refuse(string $name, string $flaw): never
    {
        $subject = $name === 'key' ? 'key' : 'IV';
        throw new EnvelopeException("{$name}_$flaw", "the $subject " . self::FLAWS[$flaw]);
    }

    private static function swapped(): never
    {
        throw new EnvelopeException('swapped', 'the key and the IV are swapped');
    }

    /** Hex digits in either case are read as hex, everything else as base64. */
    private static function decode(string $data): string
    {
        $isHex = ctype_xdigit($data) && strlen($data) % 2 === 0;
        $ciphertext = $isHex ? (string) hex2bin($data) : self::strictBase64($data);
        if ($ciphertext === null) {
            throw new EnvelopeException('malformed', 'the data is neither hex nor base64');
        }
        if ($ciphertext === '' || strlen($ciphertext) % 16 !== 0) {
            throw new EnvelopeException('malformed', 'the data is not a whole number of blocks: was it cut?');
        }
        return $ciphertext;
    }

    /** PHP skips some of what is not base64, so the text is valid only if encoding the bytes yields it again. */
    private static function strictBase64(string $text): ?string
    {
        $bytes = base64_decode($text, true);
        return $bytes !== false && base64_encode($bytes) === $text ? $bytes : null;
    }
}

/** Returns `""` for text that cannot be sealed, and null for data that does not open. */
final class Compat
{
    public function __construct(private readonly Envelope $envelope) {}

    public function seal(#[\SensitiveParameter] string $text): string
    {
        try { return $this->envelope->seal($text); } catch (EnvelopeException) { return ''; }
    }

    public function open(string $data): ?string
    {
        try { return $this->envelope->open($data); } catch (EnvelopeException) { return null; }
    }
}

/**
 * Checks this machine with vectors from OpenSSL. Returns their number.
 *
 * @throws EnvelopeException `selftest_failed`
 */
function selftest(): int
{
    $demo = ['demo-key-of-acme-not-a-secret-32', 'demo-iv-of-acme-', 'text'];
    [$hex, $base64] = [new Envelope(...$demo), new Envelope(...[...$demo, 'base64'])];
    $charge = ['{"amount":1500}', 'b1cfe5cf79092760fa94b1d5aa17a154'];
    $name = ['{"name":"Zoë €"}', 'eH7i+tysjZUva7EzowKts3gpbWWDCyxUWxroNUMbR8g='];
    $results = [
        'fingerprint' => $hex->fingerprint === '3e2af6e2f2d786fd',
        'seal hex' => $hex->seal($charge[0]) === $charge[1],
        'open hex' => $hex->open($charge[1]) === $charge[0],
        'seal base64' => $base64->seal($name[0]) === $name[1],
        'open base64' => $base64->open($name[1]) === $name[0],
        'cut' => $hex->compat()->open('b1cfe5cf79092760fa94b1d5aa17a15400') === null,
        'padding' => $hex->compat()->open('c39659865b67270102e9ded9196d0a29') === null,
        'UTF-8' => $hex->compat()->open('75135cc672b20db60081c364bf80ba98') === null,
    ];
    $failed = array_search(false, $results, true);
    return $failed === false ? count($results) : throw new EnvelopeException('selftest_failed', $failed);
}
