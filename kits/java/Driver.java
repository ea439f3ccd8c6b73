package envelope;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;

/** Runs this kit for kits/conformance: one JSON object per line on stdin, one outcome per line on stdout. */
final class Driver {
    private static final Gson GSON = new GsonBuilder().serializeNulls().create();
    /** One client for each set of options. It is kept during rotations. */
    private static final Map<String, Object> CLIENTS = new HashMap<>();
    private static Envelope current;

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> outcome;
            try {
                outcome = run(JsonParser.parseString(line).getAsJsonObject());
            } catch (IOException | InterruptedException | RuntimeException error) {
                outcome = Map.of("error", errorIn(error));
            }
            output.println(GSON.toJson(outcome));
        }
        // OkHttp's threads would keep the process alive for a minute.
        System.exit(0);
    }

    private static Map<String, Object> run(JsonObject operation) throws IOException, InterruptedException {
        switch (text(operation, "op")) {
            case "clients":
                return Map.of("clients", List.of("java-net-http", "okhttp"));
            case "selftest":
                return Map.of("passed", Envelope.selftest());
            default:
        }
        Envelope envelope = new Envelope(
                text(operation, "key"),
                text(operation, "iv"),
                "base64".equals(text(operation, "key_text")) ? Envelope.KeyText.BASE64 : Envelope.KeyText.TEXT,
                "base64".equals(text(operation, "encoding")) ? Envelope.Encoding.BASE64 : Envelope.Encoding.HEX);
        switch (text(operation, "op")) {
            case "call":
                current = envelope;
                return call(operation);
            case "seal":
                return Map.of("data", envelope.seal(text(operation, "plaintext")));
            case "open":
                return Map.of("plaintext", envelope.open(text(operation, "data")));
            case "fingerprint":
                return Map.of("fingerprint", envelope.fingerprint());
            case "show":
                return Map.of("shown", List.of(envelope.toString(), GSON.toJson(envelope), envelope.compat().toString()));
            case "compat":
                return values("plaintext", envelope.compat().open(text(operation, "data")), "data", envelope.compat().seal(null));
            default:
                return Map.of("error", Map.of("type", "driver", "code", "unknown_op"));
        }
    }

    private static Map<String, Object> call(JsonObject operation) throws IOException, InterruptedException {
        boolean migrating = operation.has("migrating") && operation.get("migrating").getAsBoolean();
        int timeout = operation.has("timeout_ms") ? operation.get("timeout_ms").getAsInt() : 10_000;
        int maxBytes = operation.has("max_bytes") ? operation.get("max_bytes").getAsInt() : 65_536;
        boolean checkId = !operation.has("any_id") || !operation.get("any_id").getAsBoolean();
        Exchange exchange = new Exchange(() -> current, List.of("/api/s2s/"), migrating, maxBytes, 2, checkId);
        String client = text(operation, "client");
        String name = client + " " + migrating + " " + timeout + " " + maxBytes + " " + checkId;
        Map<String, String> headers = new HashMap<>();
        if (operation.has("headers")) {
            operation.getAsJsonObject("headers").entrySet().forEach(each -> headers.put(each.getKey(), each.getValue().getAsString()));
        }
        String body = text(operation, "body");
        byte[] bytes = body == null ? null : body.getBytes(StandardCharsets.UTF_8);
        String method = text(operation, "method");
        if (client.equals("okhttp")) {
            OkHttpClient http = (OkHttpClient) CLIENTS.computeIfAbsent(name, key ->
                    EnvelopeInterceptor.addTo(new OkHttpClient.Builder(), exchange, Duration.ofMillis(timeout)).build());
            Request.Builder request = new Request.Builder().url(text(operation, "url"));
            headers.forEach(request::header);
            request.method(method, bytes == null ? null : RequestBody.create(null, bytes));
            try (Response response = http.newCall(request.build()).execute()) {
                return values("status", response.code(), "type", response.header("Content-Type"), "body", response.body().string());
            }
        }
        EnvelopeHttpClient http = (EnvelopeHttpClient) CLIENTS.computeIfAbsent(name, key ->
                new EnvelopeHttpClient(exchange, Duration.ofMillis(timeout)));
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(text(operation, "url")));
        headers.forEach(request::header);
        request.method(method, bytes == null
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofByteArray(bytes));
        HttpResponse<String> response = http.send(request.build());
        String type = response.headers().firstValue("Content-Type").orElse(null);
        return values("status", response.statusCode(), "type", type, "body", response.body());
    }

    private static Map<String, Object> errorIn(Throwable error) {
        String message = String.valueOf(error.getMessage());
        if (error instanceof Envelope.EnvelopeException flaw) {
            return values("type", "envelope", "code", flaw.code(), "message", message);
        }
        if (error instanceof Exchange.Refusal refusal) {
            return values(
                    "type", "refusal", "status", refusal.status, "code", refusal.code, "hint", refusal.hint,
                    "request_id", refusal.requestId, "retry_after", refusal.retryAfter,
                    "forwarded", refusal.forwarded, "message", message);
        }
        if (error instanceof Exchange.OutcomeUnknown unknown) {
            Object refusal = unknown.getCause() instanceof Exchange.Refusal cause ? errorIn(cause) : null;
            return values(
                    "type", "outcome_unknown", "status", unknown.status, "code", unknown.reason,
                    "request_id", unknown.requestId, "refusal", refusal, "message", message);
        }
        return values("type", "other", "message", error.toString());
    }

    /** Null if there is none. */
    private static String text(JsonObject operation, String name) {
        JsonElement value = operation.get(name);
        return value == null ? null : value.getAsString();
    }

    private static Map<String, Object> values(Object... namesAndValues) {
        Map<String, Object> values = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) values.put((String) namesAndValues[i], namesAndValues[i + 1]);
        return values;
    }
}
