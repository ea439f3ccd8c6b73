// Package envelope seals and opens the envelopes of envelope-sidecar: AES-256-CBC with PKCS#7 padding, in hex or base64.
//
// This file is the core of the kit: it needs only the standard library and may be copied. Version 0.2.0, MIT licence.
package envelope

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// The messages for bad credentials, by code. No message contains any part of a key, an IV or a plaintext.
var flaws = map[string]string{
	"empty":      "is empty",
	"decoded":    "was decoded: pass the string as you were given it",
	"nul":        "contains NUL bytes: pass the string as you were given it",
	"quoted":     "is in quotes: remove them",
	"space":      "begins or ends with white space: remove it",
	"pem":        "is a PEM file: pass the string of 32 characters",
	"api_key":    "is an API key: pass the encryption key and its IV",
	"hex":        "is in hex: pass the string as you were given it",
	"base64":     "is in base64: set the key text to base64, or pass the string of 32 characters",
	"not_base64": "is not base64, which the key text says",
	"length":     "has the wrong length: a key has 32 bytes, an IV 16",
	"swapped":    "are swapped",
	"iv_is_key":  "are the same",
}

// Error says that credentials cannot be right, that a text cannot be sealed, or that data does not open.
type Error struct {
	Code    string // such as key_quoted, malformed or decryption_failed
	message string
}

func (e *Error) Error() string { return e.Code + ": " + e.message }

// Config has the credentials as they were given to you.
type Config struct {
	Key, IV  string
	KeyText  string // how Key and IV are read: "text" (the default), or "base64"
	Encoding string // how Seal writes: "hex" (the default), or "base64"; Open reads both
}

// Envelope has the credentials of one account in one environment. Printing it shows neither key nor IV. Safe for
// concurrent use.
type Envelope struct {
	pair        func() (block cipher.Block, iv []byte) // fmt shows what a struct holds, but not what a function does
	fingerprint string
	encoding    string
}

// New returns an *Error whose code names the mistake if the key or the IV cannot be right.
func New(config Config) (*Envelope, error) {
	if err := refuse(append(flawsOf("key", config.Key), flawsOf("iv", config.IV)...)); err != nil {
		return nil, err
	}
	read := map[string]func(key, iv string) ([]byte, []byte, error){"": readText, "text": readText, "base64": readBase64}[config.KeyText]
	if read == nil || !strings.Contains(" hex base64 ", " "+config.Encoding) {
		return nil, &Error{"options", "KeyText is text or base64, Encoding is hex or base64"}
	}
	key, iv, err := read(config.Key, config.IV)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	sum := sha256.Sum256(append(append([]byte{}, key...), iv...))
	pair := func() (cipher.Block, []byte) { return block, iv }
	return &Envelope{pair, hex.EncodeToString(sum[:8]), config.Encoding}, err
}

// Fingerprint names the credentials without showing them: the first 16 hex digits of SHA-256(key bytes, IV bytes).
func (e *Envelope) Fingerprint() string { return e.fingerprint }

// Seal returns the ciphertext of a JSON text, without the object around it.
func (e *Envelope) Seal(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", &Error{"not_utf8", "the text is not UTF-8"}
	}
	padding := aes.BlockSize - len(text)%aes.BlockSize
	ciphertext := append([]byte(text), bytes.Repeat([]byte{byte(padding)}, padding)...)
	block, iv := e.pair()
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(ciphertext, ciphertext)
	if e.encoding == "base64" {
		return base64.StdEncoding.EncodeToString(ciphertext), nil
	}
	return hex.EncodeToString(ciphertext), nil
}

// SealJSON seals a value as encoding/json writes it. Its error is `not_json` for a value that JSON cannot express.
func (e *Envelope) SealJSON(value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", &Error{"not_json", "the value has no JSON"}
	}
	return e.Seal(string(text))
}

// Open returns the text that was sealed, from hex or base64. Its error is `malformed` or `decryption_failed`.
func (e *Envelope) Open(data string) (string, error) {
	plaintext, err := decode(data)
	if err != nil {
		return "", err
	}
	block, iv := e.pair()
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plaintext, plaintext)
	padding := int(plaintext[len(plaintext)-1])
	right := padding >= 1 && padding <= aes.BlockSize
	if right {
		end := plaintext[len(plaintext)-padding:]
		plaintext = plaintext[:len(plaintext)-padding]
		right = bytes.Count(end, []byte{byte(padding)}) == padding && utf8.Valid(plaintext)
	}
	if !right {
		// The reason would reveal whether the padding or the text is wrong, and is of no use.
		return "", &Error{"decryption_failed", "wrong key or IV, or the data was changed on the way"}
	}
	return string(plaintext), nil
}

// OpenJSON opens into a value as json.Unmarshal does. Its error is that of Open, or `not_json`.
func (e *Envelope) OpenJSON(data string, value any) error {
	text, err := e.Open(data)
	if err == nil && json.Unmarshal([]byte(text), value) != nil {
		err = &Error{"not_json", "the plaintext is not JSON of this type"}
	}
	return err
}

// SealBody returns the body of a request: {"data":"…"}.
func (e *Envelope) SealBody(text string) (string, error) {
	data, err := e.Seal(text)
	return `{"data":"` + data + `"}`, err
}

var body = regexp.MustCompile(`^\s*\{\s*"data"\s*:\s*"([0-9A-Za-z+/=]*)"\s*\}\s*$`)

// OpenBody returns the text in the body of a response: an object whose only member is data.
func (e *Envelope) OpenBody(text string) (string, error) {
	match := body.FindStringSubmatch(text)
	if match == nil {
		return "", &Error{"malformed", `the body is not {"data":"…"}`}
	}
	return e.Open(match[1])
}

// Compat is for code that expects an empty string or nothing instead of errors.
func (e *Envelope) Compat() Compat { return Compat{e} }

// Compat returns "" for text that cannot be sealed and nil for data that does not open.
type Compat struct{ envelope *Envelope }

func (c Compat) Seal(text string) string {
	data, _ := c.envelope.Seal(text)
	return data
}

func (c Compat) Open(data string) *string {
	text, err := c.envelope.Open(data)
	return map[bool]*string{true: &text}[err == nil]
}

func (e *Envelope) String() string               { return "Envelope(" + e.fingerprint + ")" }
func (e *Envelope) GoString() string             { return e.String() }
func (e *Envelope) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

func readText(key, iv string) ([]byte, []byte, error) {
	first := fmt.Sprintf("%.16s", iv) // characters, not bytes
	return []byte(key), []byte(first), refuse([]flaw{
		{len(key) == 16 && len(iv) == 32, "", "swapped"},
		{matches(`^[0-9a-fA-F]{64}$`, key), "key", "hex"},
		{matches(`^[A-Za-z0-9+/]{43}=$`, key), "key", "base64"},
		{len(key) == 24, "key", "decoded"},
		{len(key) != 32, "key", "length"},
		{key == iv, "", "iv_is_key"},
		// Only the hex of printable text is refused, because other hex digits may well be an IV.
		{matches(`^(?:[2-6][0-9a-fA-F]|7[0-9a-eA-E]){16}$`, iv), "iv", "hex"},
		{len(iv) == 12, "iv", "decoded"},
		{len(first) != 16, "iv", "length"},
	})
}

func readBase64(key, iv string) ([]byte, []byte, error) {
	keyBytes, ivBytes := strictBase64(key), strictBase64(iv)
	return keyBytes, ivBytes, refuse([]flaw{
		{len(keyBytes) == 16 && len(ivBytes) == 32, "", "swapped"},
		{keyBytes == nil, "key", "not_base64"},
		{len(keyBytes) != 32, "key", "length"},
		{ivBytes == nil, "iv", "not_base64"},
		{len(ivBytes) != 16, "iv", "length"},
	})
}

func flawsOf(name, value string) []flaw {
	return []flaw{
		{value == "", name, "empty"},
		{!utf8.ValidString(value) || strings.ContainsRune(value, utf8.RuneError), name, "decoded"},
		{strings.Contains(value, "\x00"), name, "nul"},
		{matches(`(?s)^(?:".*"|'.*')$`, value), name, "quoted"},
		{strings.Trim(value, " \t\r\n") != value, name, "space"},
		{strings.HasPrefix(value, "-----BEGIN"), name, "pem"},
		{matches(`^[ps]k_(?:test|live)_`, value), name, "api_key"},
	}
}

type flaw struct {
	isThere    bool
	name, flaw string
}

// Returns the error for the first flaw that is there.
func refuse(all []flaw) error {
	for _, each := range all {
		if each.isThere {
			subject := map[string]string{"": "key and the IV", "key": "key", "iv": "IV"}[each.name]
			return &Error{strings.TrimPrefix(each.name+"_"+each.flaw, "_"), "the " + subject + " " + flaws[each.flaw]}
		}
	}
	return nil
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// Hex digits in either case are read as hex, everything else as base64.
func decode(data string) ([]byte, error) {
	ciphertext, err := hex.DecodeString(data)
	if err != nil {
		ciphertext = strictBase64(data)
	}
	if len(ciphertext) == 0 || len(ciphertext)%aes.BlockSize != 0 {
		return nil, &Error{"malformed", "the data is not whole blocks in hex or base64: was it cut?"}
	}
	return ciphertext, nil
}

// Go skips line breaks, so the text is valid only if encoding the bytes yields it again.
func strictBase64(text string) []byte {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil || base64.StdEncoding.EncodeToString(decoded) != text {
		return nil
	}
	return decoded
}
