package envelope;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The rules of an exchange with envelope-sidecar, for any HTTP client. */
public final class Exchange {
    /** If {@code Retry-After} exceeds this many seconds, waiting is left to the caller. */
    private static final int LONGEST_WAIT = 60;

    final Supplier<Envelope> envelope;
    final List<String> prefixes;
    final boolean migrating;
    final int maxBytes;
    final int retries;
    final boolean checkId;

    /** @param envelope the credentials to use: called for each request, so that a rotation needs no restart */
    public Exchange(Supplier<Envelope> envelope) {
        this(envelope, List.of("/api/s2s/"), false, 16 * 1024 * 1024, 2, true);
    }

    /**
     * @param prefixes paths whose bodies are sealed; the two test endpoints are never among them
     * @param migrating whether a 2xx may be unsealed; use this only while an account starts or stops encrypting
     * @param maxBytes the longest body of a response
     * @param retries the maximum number of times that a request is sent again if the core has not seen it
     * @param checkId whether a response must have its request's X-Request-Id; false behind a gateway that replaces it
     */
    public Exchange(
            Supplier<Envelope> envelope, List<String> prefixes, boolean migrating, int maxBytes, int retries, boolean checkId) {
        this.envelope = envelope;
        this.prefixes = List.copyOf(prefixes);
        this.migrating = migrating;
        this.maxBytes = maxBytes;
        this.retries = retries;
        this.checkId = checkId;
    }

    /** The sidecar refused the request. Decide by {@code code}, never by the status. */
    public static final class Refusal extends IOException {
        private static final long serialVersionUID = 1;
        public final int status;
        public final String code;
        /** Null if there is none. */
        public final String hint;
        public final String requestId;
        /** In seconds; null if there is none. */
        public final Integer retryAfter;
        /** {@code no} if the core has not seen the request, otherwise {@code maybe}. */
        public final String forwarded;

        Refusal(int status, String problem, Integer retryAfter) {
            super(status + " " + member(problem, "code") + ": " + member(problem, member(problem, "hint") == null ? "detail" : "hint"));
            this.status = status;
            this.code = member(problem, "code");
            this.hint = member(problem, "hint");
            this.requestId = member(problem, "request_id");
            this.retryAfter = retryAfter;
            this.forwarded = "no".equals(member(problem, "forwarded")) ? "no" : "maybe";
        }
    }

    /** The payment may have been made: look it up by your reference before you send it again. */
    public static final class OutcomeUnknown extends IOException {
        private static final long serialVersionUID = 1;
        /** lost, swapped, status, refused (by a {@link Refusal}, the cause), unsealed, not_opened or too_large. */
        public final String reason;
        /** 0 if there was no response. */
        public final int status;
        /** Null if there was none. */
        public final String requestId;

        OutcomeUnknown(String reason, int status, String requestId, Throwable cause) {
            super("the outcome is unknown: " + reason + ", status " + status, cause);
            this.reason = reason;
            this.status = status;
            this.requestId = requestId;
        }
    }

    /** A request as it is sent. {@code body} is null if there is none, {@code opening} if nothing is sealed. */
    record Sent(String requestId, Optional<String> fingerprint, byte[] body, boolean isSealed, Envelope opening) {}

    /** A response as the merchant's code sees it. */
    record Opened(byte[] body, boolean wasSealed, String contentType) {}

    Sent seal(String method, String path, String requestId, byte[] body) {
        Envelope current = envelope.get();
        boolean isEnveloped = isEnveloped(path);
        boolean isSealed = isEnveloped && body != null && body.length > 0;
        byte[] sent = isSealed ? current.sealBody(text(body)).getBytes(StandardCharsets.US_ASCII) : body;
        Optional<String> fingerprint = isEnveloped ? Optional.of(current.fingerprint()) : Optional.empty();
        return new Sent(requestId, fingerprint, sent, isSealed, isEnveloped && !method.equals("HEAD") ? current : null);
    }

    /** @param header gives the value of a header, or null */
    Opened read(Sent sent, int status, Function<String, String> header, byte[] body) throws IOException {
        String id = header.apply("X-Request-Id");
        String contentType = header.apply("Content-Type");
        boolean succeeded = status >= 200 && status < 300;
        if (checkId && (succeeded || header.apply("Envelope") != null || isProblem(contentType))) {
            // After one response too many on a connection, each request gets the response to the previous one.
            if (id != null && !id.equals(sent.requestId)) throw new OutcomeUnknown("swapped", status, id, null);
        }
        Envelope opening = status == 204 || status == 304 ? null : sent.opening;
        boolean isSealed = opening != null && "sealed".equalsIgnoreCase(header.apply("Envelope"));
        if (isSealed) {
            try {
                body = opening.openBody(text(body)).getBytes(StandardCharsets.UTF_8);
            } catch (Envelope.EnvelopeException error) {
                throw new OutcomeUnknown("not_opened", status, id, error);
            }
            contentType = Optional.ofNullable(header.apply("Envelope-Content-Type")).orElse("application/json");
        }
        if (status >= 400 && isProblem(contentType)) {
            String problem = new String(body, StandardCharsets.UTF_8);
            if (member(problem, "code") != null && member(problem, "request_id") != null) {
                String after = Optional.ofNullable(header.apply("Retry-After")).orElse("");
                Refusal refusal = new Refusal(status, problem, after.matches("[0-9]{1,6}") ? Integer.valueOf(after) : null);
                if (status >= 500 && !refusal.forwarded.equals("no")) throw new OutcomeUnknown("refused", status, id, refusal);
                throw refusal;
            }
        }
        if (status == 502 || status == 503 || status == 504) throw new OutcomeUnknown("status", status, id, null);
        if (opening != null && succeeded && !isSealed && body.length > 0 && !migrating) {
            throw new OutcomeUnknown("unsealed", status, id, null);
        }
        return new Opened(body, isSealed, contentType);
    }

    /** Waits before the request is sent again, or throws the refusal if it is not. */
    void waitAfter(Refusal refusal, int attempt) throws Refusal {
        boolean again = refusal.forwarded.equals("no") && attempt < retries && refusal.retryAfter != null;
        if (!again || refusal.retryAfter > LONGEST_WAIT) throw refusal;
        try {
            Thread.sleep(refusal.retryAfter * 1_000L);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw refusal;
        }
    }

    /** Matches paths as the sidecar does, ignoring case and a slash at the end. */
    private boolean isEnveloped(String path) {
        String lower = path.toLowerCase(Locale.ROOT).replaceFirst("/$", "");
        if (lower.equals("/api/s2s/aes-encrypt") || lower.equals("/api/s2s/aes-decrypt")) return false;
        return prefixes.stream().anyMatch((lower + "/")::startsWith);
    }

    private static String text(byte[] body) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body)).toString();
        } catch (CharacterCodingException error) {
            throw new Envelope.EnvelopeException("not_utf8", "the body is not UTF-8");
        }
    }

    private static boolean isProblem(String contentType) {
        return contentType != null && contentType.toLowerCase(Locale.ROOT).matches("application/problem\\+json\\b.*");
    }

    /** A string in the sidecar's problem documents, which are flat; null if there is none. */
    private static String member(String problem, String name) {
        Matcher match = Pattern.compile("\"" + name + "\"\\s*:\\s*\"((?:[^\"\\\\]|\\\\.)*+)\"").matcher(problem);
        if (!match.find()) return null;
        Matcher escape = Pattern.compile("\\\\(?:u([0-9a-fA-F]{4})|(.))").matcher(match.group(1));
        return escape.replaceAll(each -> Matcher.quoteReplacement(
                each.group(1) != null
                        ? String.valueOf((char) Integer.parseInt(each.group(1), 16))
                        : switch (each.group(2)) {
                            case "n" -> "\n";
                            case "t" -> "\t";
                            case "r" -> "\r";
                            case "b" -> "\b";
                            case "f" -> "\f";
                            default -> each.group(2);
                        }));
    }
}
