package envelope;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * Envelopes of envelope-sidecar: AES-256-CBC with PKCS#7 padding, in hex or base64. Has the credentials of one account in
 * one environment, and shows them neither when printed nor when serialised. Takes and returns JSON as text. Thread-safe.
 *
 * <p>The core of the kit: one file that needs only the JDK and may be copied. Version 0.2.0, MIT licence.
 */
public final class Envelope {
    /** How the strings of key and IV are read: as they are, or decoded from base64. */
    public enum KeyText { TEXT, BASE64 }

    /** How {@code seal} writes. {@code open} reads both. */
    public enum Encoding { HEX, BASE64 }

    /** Credentials that cannot be right, text that cannot be sealed, or data that does not open. */
    public static final class EnvelopeException extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final String code;

        EnvelopeException(String code, String message) {
            super(code + ": " + message);
            this.code = code;
        }

        /** Such as {@code key_quoted}, {@code malformed} or {@code decryption_failed}. */
        public String code() {
            return code;
        }
    }

    /** The messages for bad credentials, by code. No message contains any part of a key, an IV or a plaintext. */
    private static final Map<String, String> FLAWS = Map.ofEntries(
            Map.entry("empty", "is empty"),
            Map.entry("decoded", "was decoded: pass the string as you were given it"),
            Map.entry("nul", "contains NUL bytes: pass the string as you were given it"),
            Map.entry("quoted", "is in quotes: remove them"),
            Map.entry("space", "begins or ends with white space: remove it"),
            Map.entry("pem", "is a PEM file: pass the string of 32 characters"),
            Map.entry("api_key", "is an API key: pass the encryption key and its IV"),
            Map.entry("hex", "is in hex: pass the string as you were given it"),
            Map.entry("base64", "is in base64: set the key text to base64, or pass the string of 32 characters"),
            Map.entry("not_base64", "is not base64, which the key text says"),
            Map.entry("length", "has the wrong length: a key has 32 bytes, an IV 16"));

    private static final Pattern BODY = Pattern.compile("\\s*\\{\\s*\"data\"\\s*:\\s*\"([0-9A-Za-z+/=]*+)\"\\s*}\\s*");

    // Transient: libraries such as Gson leave it out.
    private final transient SecretKeySpec key;
    private final transient IvParameterSpec iv;
    private final transient Encoding encoding;
    private final String fingerprint;

    public Envelope(String key, String iv) {
        this(key, iv, KeyText.TEXT, Encoding.HEX);
    }

    /** @throws EnvelopeException if the key or the IV cannot be right; its code names the mistake */
    public Envelope(String key, String iv, KeyText keyText, Encoding encoding) {
        refuseFlaws("key", key);
        refuseFlaws("iv", iv);
        byte[][] pair = keyText == KeyText.BASE64 ? readBase64(key, iv) : readText(key, iv);
        this.key = new SecretKeySpec(pair[0], "AES");
        this.iv = new IvParameterSpec(pair[1]);
        this.encoding = encoding;
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(pair[0]);
            fingerprint = HexFormat.of().formatHex(digest.digest(pair[1])).substring(0, 16);
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Names the credentials without showing them: the first 16 hex digits of SHA-256(key bytes, IV bytes). */
    public String fingerprint() {
        return fingerprint;
    }

    /** The ciphertext of a JSON text, without the object around it. */
    public String seal(String text) {
        try {
            ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text == null ? "\ud800" : text));
            byte[] ciphertext = run(Cipher.ENCRYPT_MODE, Arrays.copyOf(bytes.array(), bytes.limit()));
            return encoding == Encoding.HEX
                    ? HexFormat.of().formatHex(ciphertext)
                    : Base64.getEncoder().encodeToString(ciphertext);
        } catch (CharacterCodingException error) {
            throw new EnvelopeException("not_utf8", "the text is not Unicode");
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The text that was sealed, from hex or base64. @throws EnvelopeException malformed or decryption_failed */
    public String open(String data) {
        byte[] ciphertext = decode(data);
        try {
            ByteBuffer plaintext = ByteBuffer.wrap(run(Cipher.DECRYPT_MODE, ciphertext));
            return StandardCharsets.UTF_8.newDecoder().decode(plaintext).toString();
        } catch (CharacterCodingException | GeneralSecurityException error) {
            // The reason would reveal whether the padding or the text is wrong, and is of no use.
            throw new EnvelopeException("decryption_failed", "wrong key or IV, or the data was changed on the way");
        }
    }

    /** The body of a request: {@code {"data":"…"}}. */
    public String sealBody(String text) {
        return "{\"data\":\"" + seal(text) + "\"}";
    }

    /** The text in the body of a response: an object whose only member is {@code data}. */
    public String openBody(String body) {
        Matcher match = BODY.matcher(body);
        if (!match.matches()) throw new EnvelopeException("malformed", "the body is not {\"data\":\"…\"}");
        return open(match.group(1));
    }

    /** For code that expects an empty string or null instead of errors. */
    public Compat compat() {
        return new Compat(this);
    }

    /** Returns {@code ""} for text that cannot be sealed, and null for data that does not open. */
    public record Compat(Envelope envelope) {
        public String seal(String text) {
            try { return envelope.seal(text); } catch (EnvelopeException error) { return ""; }
        }

        public String open(String data) {
            try { return envelope.open(data); } catch (EnvelopeException error) { return null; }
        }
    }

    @Override
    public String toString() {
        return "Envelope(" + fingerprint + ")";
    }

    private byte[] run(int mode, byte[] bytes) throws GeneralSecurityException {
        Cipher cipher = Cipher.getInstance("AES/CBC/PKCS5Padding");
        cipher.init(mode, key, iv);
        return cipher.doFinal(bytes);
    }

    private static byte[][] readText(String key, String iv) {
        byte[] keyBytes = key.getBytes(StandardCharsets.UTF_8);
        byte[] ivBytes = iv.substring(0, Math.min(16, iv.length())).getBytes(StandardCharsets.UTF_8);
        int ivLength = iv.getBytes(StandardCharsets.UTF_8).length;
        refuseIf(keyBytes.length == 16 && ivLength == 32, "swapped");
        refuseIf(key.matches("[0-9a-fA-F]{64}"), "key_hex");
        refuseIf(key.matches("[A-Za-z0-9+/]{43}="), "key_base64");
        refuseIf(keyBytes.length == 24, "key_decoded");
        refuseIf(keyBytes.length != 32, "key_length");
        refuseIf(key.equals(iv), "iv_is_key");
        // Only the hex of printable text is refused, because other hex digits may well be an IV.
        refuseIf(iv.matches("(?:[2-6][0-9a-fA-F]|7[0-9a-eA-E]){16}"), "iv_hex");
        refuseIf(ivLength == 12, "iv_decoded");
        refuseIf(ivBytes.length != 16, "iv_length");
        return new byte[][] {keyBytes, ivBytes};
    }

    private static byte[][] readBase64(String key, String iv) {
        byte[] keyBytes = strictBase64(key);
        byte[] ivBytes = strictBase64(iv);
        refuseIf(keyBytes != null && ivBytes != null && keyBytes.length == 16 && ivBytes.length == 32, "swapped");
        refuseIf(keyBytes == null, "key_not_base64");
        refuseIf(keyBytes.length != 32, "key_length");
        refuseIf(ivBytes == null, "iv_not_base64");
        refuseIf(ivBytes.length != 16, "iv_length");
        return new byte[][] {keyBytes, ivBytes};
    }

    private static void refuseFlaws(String name, String value) {
        refuseIf(value == null || value.isEmpty(), name + "_empty");
        boolean isUnicode = StandardCharsets.UTF_8.newEncoder().canEncode(value);
        refuseIf(!isUnicode || value.contains("\ufffd"), name + "_decoded");
        refuseIf(value.contains("\0"), name + "_nul");
        refuseIf(value.matches("(?s)([\"']).*\\1"), name + "_quoted");
        refuseIf(value.matches("(?s)[ \t\r\n].*|.*[ \t\r\n]"), name + "_space");
        refuseIf(value.startsWith("-----BEGIN"), name + "_pem");
        refuseIf(value.matches("(?s)[ps]k_(?:test|live)_.*"), name + "_api_key");
    }

    private static void refuseIf(boolean isWrong, String code) {
        if (!isWrong) return;
        String flaw = FLAWS.get(code.substring(code.indexOf('_') + 1));
        String message = code.equals("swapped") ? "the key and the IV are swapped" : "the IV is the key";
        throw new EnvelopeException(code, flaw == null ? message : "the " + (code.startsWith("key") ? "key " : "IV ") + flaw);
    }

    /** Hex digits in either case are read as hex, everything else as base64. */
    private static byte[] decode(String data) {
        boolean isHex = data != null && data.length() % 2 == 0 && data.chars().allMatch(HexFormat::isHexDigit);
        byte[] ciphertext = isHex ? HexFormat.of().parseHex(data) : strictBase64(data);
        if (ciphertext == null || ciphertext.length == 0 || ciphertext.length % 16 != 0) {
            throw new EnvelopeException("malformed", "the data is not whole blocks in hex or base64: was it cut?");
        }
        return ciphertext;
    }

    /** Java accepts base64 without padding, so the text is valid only if encoding the bytes yields it again. */
    private static byte[] strictBase64(String text) {
        try {
            byte[] bytes = Base64.getDecoder().decode(text);
            return Base64.getEncoder().encodeToString(bytes).equals(text) ? bytes : null;
        } catch (IllegalArgumentException | NullPointerException error) {
            return null;
        }
    }

    /** Checks this machine with vectors from OpenSSL. Returns their number. @throws EnvelopeException selftest_failed */
    public static int selftest() {
        String[] demo = {"demo-key-of-acme-not-a-secret-32", "demo-iv-of-acme-"};
        Envelope hex = new Envelope(demo[0], demo[1]);
        Envelope base64 = new Envelope(demo[0], demo[1], KeyText.TEXT, Encoding.BASE64);
        String[] charge = {"{\"amount\":1500}", "b1cfe5cf79092760fa94b1d5aa17a154"};
        String[] name = {"{\"name\":\"Zo\u00eb \u20ac\"}", "eH7i+tysjZUva7EzowKts3gpbWWDCyxUWxroNUMbR8g="};
        boolean[] results = {
            hex.fingerprint.equals("3e2af6e2f2d786fd"),
            hex.seal(charge[0]).equals(charge[1]), hex.open(charge[1]).equals(charge[0]),
            base64.seal(name[0]).equals(name[1]), base64.open(name[1]).equals(name[0]),
            hex.compat().open("b1cfe5cf79092760fa94b1d5aa17a15400") == null,
            hex.compat().open("c39659865b67270102e9ded9196d0a29") == null,
            hex.compat().open("75135cc672b20db60081c364bf80ba98") == null,
        };
        for (int i = 0; i < results.length; i += 1) {
            if (!results[i]) throw new EnvelopeException("selftest_failed", "vector " + i);
        }
        return results.length;
    }
}
