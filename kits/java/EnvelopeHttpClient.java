package envelope;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import javax.net.ssl.SSLSession;

/**
 * java.net.http for merchants of envelope-sidecar: seals requests, opens responses, throws typed errors. See README.md.
 */
public final class EnvelopeHttpClient {
    private final Exchange exchange;
    private final Duration timeout;
    // Never repeats a POST, and follows no redirects, by default.
    private final HttpClient client;

    public EnvelopeHttpClient(Exchange exchange) {
        this(exchange, Duration.ofSeconds(60));
    }

    /** @param timeout the longest wait for a whole response */
    public EnvelopeHttpClient(Exchange exchange, Duration timeout) {
        this.exchange = exchange;
        this.timeout = timeout;
        this.client = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .followRedirects(HttpClient.Redirect.NEVER)
                .connectTimeout(timeout.compareTo(Duration.ofSeconds(10)) < 0 ? timeout : Duration.ofSeconds(10))
                .build();
    }

    /**
     * The response, opened, as UTF-8 text.
     *
     * @throws Envelope.EnvelopeException nothing was sent
     * @throws Exchange.Refusal the sidecar refused the request
     * @throws Exchange.OutcomeUnknown it is unknown whether the core has received the request
     */
    public HttpResponse<String> send(HttpRequest request) throws IOException, InterruptedException {
        byte[] body = request.bodyPublisher().isPresent() ? collect(request.bodyPublisher().get()) : null;
        String id = request.headers().firstValue("X-Request-Id").orElseGet(() -> UUID.randomUUID().toString());
        Exchange.Sent sent = exchange.seal(request.method(), request.uri().getPath(), id, body);
        HttpRequest.Builder builder = HttpRequest.newBuilder(request.uri()).timeout(timeout);
        request.headers().map().forEach((name, values) -> values.forEach(value -> builder.header(name, value)));
        builder.setHeader("X-Request-Id", id);
        sent.fingerprint().ifPresent(value -> builder.setHeader("Envelope-Credentials", value));
        if (sent.isSealed()) builder.setHeader("Content-Type", "application/json");
        builder.method(request.method(), sent.body() == null
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofByteArray(sent.body()));
        for (int attempt = 0; ; attempt += 1) {
            try {
                HttpResponse<byte[]> response = exchange(builder.build());
                HttpHeaders headers = response.headers();
                Exchange.Opened opened =
                        exchange.read(sent, response.statusCode(), name -> headers.firstValue(name).orElse(null), response.body());
                return new Response(request, response, opened);
            } catch (Exchange.Refusal refusal) {
                exchange.waitAfter(refusal, attempt);
            }
        }
    }

    private HttpResponse<byte[]> exchange(HttpRequest request) throws IOException, InterruptedException {
        CompletableFuture<HttpResponse<byte[]>> future =
                client.sendAsync(request, info -> new Bounded(exchange.maxBytes));
        try {
            return future.get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            Throwable cause = error.getCause();
            for (Throwable each = cause; each != null; each = each.getCause()) {
                if (each instanceof TooLarge) throw new Exchange.OutcomeUnknown("too_large", 0, null, null);
            }
            throw new Exchange.OutcomeUnknown("lost", 0, null, cause);
        } catch (TimeoutException error) {
            future.cancel(true);
            throw new Exchange.OutcomeUnknown("lost", 0, null, error);
        }
    }

    private static byte[] collect(HttpRequest.BodyPublisher publisher) {
        HttpResponse.BodySubscriber<byte[]> subscriber = HttpResponse.BodySubscribers.ofByteArray();
        publisher.subscribe(new Flow.Subscriber<ByteBuffer>() {
            @Override
            public void onSubscribe(Flow.Subscription subscription) {
                subscriber.onSubscribe(subscription);
            }

            @Override
            public void onNext(ByteBuffer bytes) {
                subscriber.onNext(List.of(bytes));
            }

            @Override
            public void onError(Throwable error) {
                subscriber.onError(error);
            }

            @Override
            public void onComplete() {
                subscriber.onComplete();
            }
        });
        return subscriber.getBody().toCompletableFuture().join();
    }

    private static final class TooLarge extends IOException {
        private static final long serialVersionUID = 1;
    }

    /** Reads a body, up to the maximum number of bytes. */
    private static final class Bounded implements HttpResponse.BodySubscriber<byte[]> {
        private final CompletableFuture<byte[]> body = new CompletableFuture<>();
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private final int maxBytes;
        private Flow.Subscription subscription;

        Bounded(int maxBytes) {
            this.maxBytes = maxBytes;
        }

        @Override
        public CompletionStage<byte[]> getBody() {
            return body;
        }

        @Override
        public void onSubscribe(Flow.Subscription subscription) {
            this.subscription = subscription;
            subscription.request(Long.MAX_VALUE);
        }

        @Override
        public void onNext(List<ByteBuffer> buffers) {
            for (ByteBuffer buffer : buffers) {
                byte[] part = new byte[buffer.remaining()];
                buffer.get(part);
                if (bytes.size() + part.length > maxBytes) {
                    subscription.cancel();
                    body.completeExceptionally(new TooLarge());
                    return;
                }
                bytes.writeBytes(part);
            }
        }

        @Override
        public void onError(Throwable error) {
            body.completeExceptionally(error);
        }

        @Override
        public void onComplete() {
            body.complete(bytes.toByteArray());
        }
    }

    private record Response(HttpRequest request, HttpResponse<byte[]> sealed, Exchange.Opened opened)
            implements HttpResponse<String> {
        @Override
        public int statusCode() {
            return sealed.statusCode();
        }

        @Override
        public String body() {
            return new String(opened.body(), StandardCharsets.UTF_8);
        }

        @Override
        public HttpHeaders headers() {
            if (!opened.wasSealed()) return sealed.headers();
            Map<String, List<String>> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
            headers.putAll(sealed.headers().map());
            headers.put("Content-Type", List.of(opened.contentType()));
            headers.remove("Envelope-Content-Type");
            headers.remove("Content-Length");
            return HttpHeaders.of(headers, (name, value) -> true);
        }

        @Override
        public Optional<HttpResponse<String>> previousResponse() {
            return Optional.empty();
        }

        @Override
        public Optional<SSLSession> sslSession() {
            return sealed.sslSession();
        }

        @Override
        public URI uri() {
            return sealed.uri();
        }

        @Override
        public HttpClient.Version version() {
            return sealed.version();
        }
    }
}
