package envelope;

import java.io.IOException;
import java.time.Duration;
import java.util.UUID;
import okhttp3.Interceptor;
import okhttp3.MediaType;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import okhttp3.ResponseBody;
import okio.Buffer;
import okio.BufferedSource;

/** OkHttp for merchants of envelope-sidecar: seals requests, opens responses, throws typed errors. See README.md. */
public final class EnvelopeInterceptor implements Interceptor {
    /** Hides Retry-After from OkHttp, which repeats a request by itself after a 503 with `Retry-After: 0`. */
    private static final String HIDDEN = "Envelope-Retry-After";

    private final Exchange exchange;

    private EnvelopeInterceptor(Exchange exchange) {
        this.exchange = exchange;
    }

    /**
     * Adds envelopes to a client. Its errors are Envelope.EnvelopeException (nothing was sent), Exchange.Refusal and
     * Exchange.OutcomeUnknown.
     *
     * @param timeout the longest wait for a connection, and for the next bytes. A `callTimeout` would hide these errors.
     */
    public static OkHttpClient.Builder addTo(OkHttpClient.Builder builder, Exchange exchange, Duration timeout) {
        return builder.addInterceptor(new EnvelopeInterceptor(exchange))
                .addNetworkInterceptor(EnvelopeInterceptor::hideRetryAfter)
                .callTimeout(Duration.ZERO)
                .connectTimeout(timeout)
                .readTimeout(timeout)
                .writeTimeout(timeout)
                .retryOnConnectionFailure(false)
                .followRedirects(false)
                .followSslRedirects(false);
    }

    private static Response hideRetryAfter(Chain chain) throws IOException {
        Response response = chain.proceed(chain.request());
        String value = response.header("Retry-After");
        return value == null ? response : response.newBuilder().removeHeader("Retry-After").header(HIDDEN, value).build();
    }

    @Override
    public Response intercept(Chain chain) throws IOException {
        Request request = chain.request();
        RequestBody body = request.body();
        Buffer buffer = new Buffer();
        if (body != null) body.writeTo(buffer);
        String given = request.header("X-Request-Id");
        String id = given == null ? UUID.randomUUID().toString() : given;
        Exchange.Sent sent =
                exchange.seal(request.method(), request.url().encodedPath(), id, body == null ? null : buffer.readByteArray());
        Request.Builder builder = request.newBuilder().header("X-Request-Id", id);
        sent.fingerprint().ifPresent(value -> builder.header("Envelope-Credentials", value));
        if (sent.isSealed()) builder.header("Content-Type", "application/json");
        MediaType type = body == null || sent.isSealed() ? MediaType.parse("application/json") : body.contentType();
        builder.method(request.method(), sent.body() == null ? null : RequestBody.create(type, sent.body()));
        for (int attempt = 0; ; attempt += 1) {
            try {
                return exchange(chain, builder.build(), sent);
            } catch (Exchange.Refusal refusal) {
                exchange.waitAfter(refusal, attempt);
            }
        }
    }

    private Response exchange(Chain chain, Request request, Exchange.Sent sent) throws IOException {
        int status = 0;
        String requestId = null;
        try (Response response = chain.proceed(request)) {
            status = response.code();
            requestId = response.header("X-Request-Id");
            BufferedSource source = response.body().source();
            if (source.request(exchange.maxBytes + 1L)) {
                throw new Exchange.OutcomeUnknown("too_large", status, requestId, null);
            }
            Response visible = response.header(HIDDEN) == null
                    ? response
                    : response.newBuilder().header("Retry-After", response.header(HIDDEN)).removeHeader(HIDDEN).build();
            Exchange.Opened opened = exchange.read(sent, status, visible::header, source.readByteArray());
            MediaType type = opened.contentType() == null ? null : MediaType.parse(opened.contentType());
            Response.Builder builder = visible.newBuilder().body(ResponseBody.create(type, opened.body()));
            if (opened.wasSealed()) {
                builder.header("Content-Type", opened.contentType());
                builder.removeHeader("Envelope-Content-Type").removeHeader("Content-Length");
            }
            return builder.build();
        } catch (Exchange.Refusal | Exchange.OutcomeUnknown error) {
            throw error;
        } catch (IOException error) {
            throw new Exchange.OutcomeUnknown("lost", status, requestId, error);
        }
    }
}
