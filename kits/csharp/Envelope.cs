using System;
using System.Linq;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;

/// <summary>
/// Envelopes of envelope-sidecar: AES-256-CBC with PKCS#7 padding, in hex or base64.
/// The core of the kit: one file that needs only .NET and may be copied. Version 0.2.0, MIT licence.
/// </summary>
namespace EnvelopeSidecar
{
    /// <summary>How the strings of key and IV are read: as they are, or decoded from base64.</summary>
    public enum KeyText { Text, Base64 }

    /// <summary>How Seal writes. Open reads both.</summary>
    public enum Encoded { Hex, Base64 }

    /// <summary>Credentials that cannot be right, text that cannot be sealed, or data that does not open.</summary>
    public sealed class EnvelopeException : Exception
    {
        /// <summary>Such as key_quoted, malformed or decryption_failed.</summary>
        public string Code { get; }

        internal EnvelopeException(string code, string message) : base(code + ": " + message)
        {
            Code = code;
        }
    }

    /// <summary>
    /// Seals and opens with the credentials of one account in one environment. Printing it shows neither key nor
    /// IV. Takes and returns JSON as text. Thread-safe.
    /// </summary>
    public sealed class Envelope
    {
        private static readonly Encoding Utf8 = new UTF8Encoding(false, true);

        private readonly byte[] key;
        private readonly byte[] iv;
        private readonly Encoded encoding;

        /// <summary>Names the credentials without showing them: the first 16 hex digits of SHA-256(key, IV).</summary>
        public string Fingerprint { get; }

        /// <exception cref="EnvelopeException">The key or the IV cannot be right; the code names the mistake.</exception>
        public Envelope(string key, string iv, KeyText keyText = KeyText.Text, Encoded encoding = Encoded.Hex)
        {
            RefuseFlaws("key", key);
            RefuseFlaws("iv", iv);
            var pair = keyText == KeyText.Base64 ? ReadBase64(key, iv) : ReadText(key, iv);
            this.key = pair[0];
            this.iv = pair[1];
            this.encoding = encoding;
            using (var sha = SHA256.Create())
            {
                Fingerprint = ToHex(sha.ComputeHash(pair[0].Concat(pair[1]).ToArray())).Substring(0, 16);
            }
        }

        /// <summary>The ciphertext of a JSON text, without the object around it.</summary>
        public string Seal(string text)
        {
            byte[] plaintext;
            try { plaintext = Utf8.GetBytes(text); }
            catch (ArgumentException) { throw new EnvelopeException("not_utf8", "the text is not Unicode"); }
            var ciphertext = Run(aes => aes.CreateEncryptor(), plaintext);
            return encoding == Encoded.Hex ? ToHex(ciphertext) : Convert.ToBase64String(ciphertext);
        }

        /// <summary>The text that was sealed, from hex or base64.</summary>
        /// <exception cref="EnvelopeException">malformed or decryption_failed</exception>
        public string Open(string data)
        {
            var ciphertext = Decode(data);
            try
            {
                return Utf8.GetString(Run(aes => aes.CreateDecryptor(), ciphertext));
            }
            catch (Exception error) when (error is CryptographicException || error is ArgumentException)
            {
                // The reason would reveal whether the padding or the text is wrong, and is of no use.
                throw new EnvelopeException("decryption_failed", "wrong key or IV, or the data was changed on the way");
            }
        }

        /// <summary>The body of a request: {"data":"…"}.</summary>
        public string SealBody(string text) => "{\"data\":\"" + Seal(text) + "\"}";

        /// <summary>The text in the body of a response: an object whose only member is data.</summary>
        public string OpenBody(string body)
        {
            var match = Regex.Match(body, "^\\s*\\{\\s*\"data\"\\s*:\\s*\"([0-9A-Za-z+/=]*)\"\\s*\\}\\s*\\z");
            if (!match.Success) throw new EnvelopeException("malformed", "the body is not {\"data\":\"…\"}");
            return Open(match.Groups[1].Value);
        }

        /// <summary>For code that expects an empty string or null instead of errors.</summary>
        public Compat Compat() => new Compat(this);

        public override string ToString() => "Envelope(" + Fingerprint + ")";

        private byte[] Run(Func<SymmetricAlgorithm, ICryptoTransform> direction, byte[] bytes)
        {
            using (var aes = Aes.Create())
            {
                aes.Mode = CipherMode.CBC;
                aes.Padding = PaddingMode.PKCS7;
                aes.Key = key;
                aes.IV = iv;
                using (var transform = direction(aes)) return transform.TransformFinalBlock(bytes, 0, bytes.Length);
            }
        }

        private static byte[][] ReadText(string key, string iv)
        {
            var keyBytes = Utf8.GetBytes(key);
            var whole = Utf8.GetByteCount(iv);
            RefuseIf(keyBytes.Length == 16 && whole == 32, "swapped");
            RefuseIf(Regex.IsMatch(key, "^[0-9a-fA-F]{64}\\z"), "key_hex");
            RefuseIf(Regex.IsMatch(key, "^[A-Za-z0-9+/]{43}=\\z"), "key_base64");
            RefuseIf(keyBytes.Length == 24, "key_decoded");
            RefuseIf(keyBytes.Length != 32, "key_length");
            RefuseIf(key == iv, "iv_is_key");
            // Only the hex of printable text is refused, because other hex digits may well be an IV.
            RefuseIf(Regex.IsMatch(iv, "^(?:[2-6][0-9a-fA-F]|7[0-9a-eA-E]){16}\\z"), "iv_hex");
            RefuseIf(whole == 12, "iv_decoded");
            var first = iv.Substring(0, Math.Min(16, iv.Length));
            // Half of a surrogate pair would count as one character of several bytes.
            RefuseIf(first.Any(char.IsSurrogate) || Utf8.GetByteCount(first) != 16, "iv_length");
            return new[] { keyBytes, Utf8.GetBytes(first) };
        }

        private static byte[][] ReadBase64(string key, string iv)
        {
            var keyBytes = StrictBase64(key);
            var ivBytes = StrictBase64(iv);
            RefuseIf(keyBytes?.Length == 16 && ivBytes?.Length == 32, "swapped");
            RefuseIf(keyBytes == null, "key_not_base64");
            RefuseIf(keyBytes.Length != 32, "key_length");
            RefuseIf(ivBytes == null, "iv_not_base64");
            RefuseIf(ivBytes.Length != 16, "iv_length");
            return new[] { keyBytes, ivBytes };
        }

        private static void RefuseFlaws(string name, string value)
        {
            RefuseIf(string.IsNullOrEmpty(value), name + "_empty");
            RefuseIf(value.Contains("\ufffd") || Encoding.UTF8.GetString(Encoding.UTF8.GetBytes(value)) != value, name + "_decoded");
            RefuseIf(value.IndexOf('\0') >= 0, name + "_nul");
            RefuseIf(Regex.IsMatch(value, "^([\"']).*\\1\\z", RegexOptions.Singleline), name + "_quoted");
            RefuseIf(value.Trim(' ', '\t', '\r', '\n') != value, name + "_space");
            RefuseIf(value.StartsWith("-----BEGIN", StringComparison.Ordinal), name + "_pem");
            RefuseIf(Regex.IsMatch(value, "^[ps]k_(?:test|live)_"), name + "_api_key");
        }

        /// <summary>No message contains any part of a key, an IV or a plaintext.</summary>
        private static void RefuseIf(bool isWrong, string code)
        {
            if (!isWrong) return;
            var subject = code.StartsWith("key", StringComparison.Ordinal) ? "the key " : "the IV ";
            throw new EnvelopeException(code, code == "swapped" ? "the key and the IV are swapped" : subject + Meaning(code));
        }

        private static string Meaning(string code)
        {
            switch (code.Substring(code.IndexOf('_') + 1))
            {
                case "empty": return "is empty";
                case "decoded": return "was decoded: pass the string as you were given it";
                case "nul": return "contains NUL bytes: pass the string as you were given it";
                case "quoted": return "is in quotes: remove them";
                case "space": return "begins or ends with white space: remove it";
                case "pem": return "is a PEM file: pass the string of 32 characters";
                case "api_key": return "is an API key: pass the encryption key and its IV";
                case "hex": return "is in hex: pass the string as you were given it";
                case "base64": return "is in base64: set the key text to base64, or pass the string of 32 characters";
                case "not_base64": return "is not base64, which the key text says";
                case "is_key": return "is the key";
                default: return "has the wrong length: a key has 32 bytes, an IV 16";
            }
        }

        /// <summary>Hex digits in either case are read as hex, everything else as base64.</summary>
        private static byte[] Decode(string data)
        {
            var isHex = data != null && Regex.IsMatch(data, "^(?:[0-9a-fA-F]{2})+\\z");
            var ciphertext = isHex
                ? Enumerable.Range(0, data.Length / 2).Select(i => Convert.ToByte(data.Substring(2 * i, 2), 16)).ToArray()
                : StrictBase64(data);
            if (ciphertext != null && ciphertext.Length > 0 && ciphertext.Length % 16 == 0) return ciphertext;
            throw new EnvelopeException("malformed", "the data is not whole blocks in hex or base64: was it cut?");
        }

        /// <summary>.NET skips white space, so the text is valid only if encoding the bytes yields it again.</summary>
        private static byte[] StrictBase64(string text)
        {
            try
            {
                var bytes = Convert.FromBase64String(text);
                return Convert.ToBase64String(bytes) == text ? bytes : null;
            }
            catch (Exception error) when (error is FormatException || error is ArgumentNullException)
            {
                return null;
            }
        }

        private static string ToHex(byte[] bytes) => string.Concat(bytes.Select(each => each.ToString("x2")));

        /// <summary>Checks this machine with vectors from OpenSSL. Returns their number.</summary>
        public static int Selftest()
        {
            var hex = new Envelope("demo-key-of-acme-not-a-secret-32", "demo-iv-of-acme-");
            var base64 = new Envelope("demo-key-of-acme-not-a-secret-32", "demo-iv-of-acme-", KeyText.Text, Encoded.Base64);
            const string name = "{\"name\":\"Zo\u00eb \u20ac\"}", nameData = "eH7i+tysjZUva7EzowKts3gpbWWDCyxUWxroNUMbR8g=";
            const string charge = "{\"amount\":1500}", chargeData = "b1cfe5cf79092760fa94b1d5aa17a154";
            var results = new[]
            {
                hex.Fingerprint == "3e2af6e2f2d786fd",
                hex.Seal(charge) == chargeData, hex.Open(chargeData) == charge,
                base64.Seal(name) == nameData, base64.Open(nameData) == name,
                hex.Compat().Open("b1cfe5cf79092760fa94b1d5aa17a15400") == null,
                hex.Compat().Open("c39659865b67270102e9ded9196d0a29") == null,
                hex.Compat().Open("75135cc672b20db60081c364bf80ba98") == null,
            };
            if (results.Contains(false)) throw new EnvelopeException("selftest_failed", "vector " + Array.IndexOf(results, false));
            return results.Length;
        }
    }

    /// <summary>Returns "" for text that cannot be sealed, and null for data that does not open.</summary>
    public sealed class Compat
    {
        private readonly Envelope envelope;

        internal Compat(Envelope envelope) { this.envelope = envelope; }

        public string Seal(string text)
        {
            try { return envelope.Seal(text); } catch (EnvelopeException) { return ""; }
        }

        public string Open(string data)
        {
            try { return envelope.Open(data); } catch (EnvelopeException) { return null; }
        }
    }
}
