package envelope;

import java.util.List;

/** Tests what the vectors cannot express. */
final class Test {
    private static final String KEY = "demo-key-of-acme-not-a-secret-32";
    private static final String IV = "demo-iv-of-acme-";

    public static void main(String[] arguments) {
        Envelope envelope = new Envelope(KEY, IV);
        check("the self-test passes", Envelope.selftest() == 8);
        check("white space around data", envelope.openBody(" {\"data\" : \"" + envelope.seal("{}") + "\"}\n").equals("{}"));
        check("a byte order mark is kept", envelope.open(envelope.seal("\ufeff{}")).equals("\ufeff{}"));
        refuses("not_utf8", () -> envelope.seal("\ud83d"));
        refuses("malformed", () -> envelope.open(null));
        refuses("key_empty", () -> new Envelope(null, IV));
        refuses("key_decoded", () -> new Envelope(KEY.substring(1) + "\ud83d", IV));
        for (String body : List.of("{}", "[]", "{\"data\":1}", "{\"data\":\"00\",\"a\":1}",
                "{\"data\":\"00\",\"data\":\"00\"}", "{\"Data\":\"00\"}", "")) {
            refuses("malformed", () -> envelope.openBody(body));
        }
        check("a large body", envelope.openBody(envelope.sealBody("x".repeat(3_000_000))).length() == 3_000_000);
    }

    private static void refuses(String code, Runnable run) {
        try {
            run.run();
        } catch (Envelope.EnvelopeException error) {
            check(error.code() + " instead of " + code, error.code().equals(code));
            return;
        }
        check("nothing instead of " + code, false);
    }

    private static void check(String name, boolean isRight) {
        if (!isRight) throw new AssertionError(name);
    }
}
