using System;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

namespace EnvelopeSidecar
{
    /// <summary>The sidecar refused the request. Decide by Code, never by the status.</summary>
    public sealed class Refusal : Exception
    {
        public int Status { get; }
        public string Code { get; }
        /// <summary>Null if there is none.</summary>
        public string Hint { get; }
        public string RequestId { get; }
        /// <summary>In seconds; null if there is none.</summary>
        public int? RetryAfter { get; }
        /// <summary>no if the core has not seen the request, otherwise maybe.</summary>
        public string Forwarded { get; }

        internal Refusal(int status, string problem, int? retryAfter)
            : base(status + " " + Member(problem, "code") + ": " + (Member(problem, "hint") ?? Member(problem, "detail")))
        {
            Status = status;
            Code = Member(problem, "code");
            Hint = Member(problem, "hint");
            RequestId = Member(problem, "request_id");
            RetryAfter = retryAfter;
            Forwarded = Member(problem, "forwarded") == "no" ? "no" : "maybe";
        }

        /// <summary>A string in the sidecar's problem documents, which are flat; null if there is none.</summary>
        internal static string Member(string problem, string name)
        {
            var match = Regex.Match(problem, "\"" + name + "\"\\s*:\\s*\"((?:[^\"\\\\]|\\\\.)*)\"");
            if (!match.Success) return null;
            return Regex.Replace(match.Groups[1].Value, "\\\\(?:u([0-9a-fA-F]{4})|(.))", each =>
            {
                if (each.Groups[1].Success) return ((char)Convert.ToInt32(each.Groups[1].Value, 16)).ToString();
                var place = "ntrbf".IndexOf(each.Groups[2].Value[0]);
                return place < 0 ? each.Groups[2].Value : "\n\t\r\b\f"[place].ToString();
            });
        }
    }

    /// <summary>The payment may have been made: look it up by your reference before you send it again.</summary>
    public sealed class OutcomeUnknown : Exception
    {
        /// <summary>lost, swapped, status, refused (by a Refusal within), unsealed, not_opened or too_large.</summary>
        public string Reason { get; }
        /// <summary>0 if there was no response.</summary>
        public int Status { get; }
        /// <summary>Null if there was none.</summary>
        public string RequestId { get; }

        internal OutcomeUnknown(string reason, HttpResponseMessage response, Exception cause = null)
            : base("the outcome is unknown: " + reason + ", status " + (int)(response?.StatusCode ?? 0), cause)
        {
            Reason = reason;
            Status = (int)(response?.StatusCode ?? 0);
            RequestId = response == null ? null : EnvelopeHandler.Header(response.Headers, "X-Request-Id");
        }
    }

    /// <summary>
    /// Seals requests, opens responses, and throws EnvelopeException (nothing was sent), Refusal or OutcomeUnknown.
    /// </summary>
    public sealed class EnvelopeHandler : DelegatingHandler
    {
        /// <summary>If Retry-After exceeds this many seconds, waiting is left to the caller.</summary>
        private const int LongestWait = 60;

        private static readonly Encoding Utf8 = new UTF8Encoding(false, true);

        private readonly Func<Envelope> envelope;

        /// <summary>Paths whose bodies are sealed; the two test endpoints are never among them.</summary>
        public string[] Prefixes { get; set; } = { "/api/s2s/" };
        /// <summary>Whether a 2xx may be unsealed; use this only while an account starts or stops encrypting.</summary>
        public bool Migrating { get; set; }
        /// <summary>The longest wait for a whole response.</summary>
        public TimeSpan Timeout { get; set; } = TimeSpan.FromSeconds(60);
        /// <summary>The longest body of a response.</summary>
        public int MaxBytes { get; set; } = 16 * 1024 * 1024;
        /// <summary>The maximum number of times that a request is sent again if the core has not seen it.</summary>
        public int Retries { get; set; } = 2;
        /// <summary>Whether a response must have its request's X-Request-Id; false behind a gateway that replaces it.</summary>
        public bool CheckId { get; set; } = true;

        /// <param name="envelope">The credentials to use: called for each request, so that a rotation needs no restart.</param>
        public EnvelopeHandler(Func<Envelope> envelope)
            : base(new HttpClientHandler { AllowAutoRedirect = false })
        {
            this.envelope = envelope;
        }

        protected override async Task<HttpResponseMessage> SendAsync(HttpRequestMessage request, CancellationToken cancel)
        {
            var current = envelope();
            var isEnveloped = IsEnveloped(request.RequestUri.AbsolutePath);
            var body = request.Content == null ? null : await request.Content.ReadAsByteArrayAsync().ConfigureAwait(false);
            if (!request.Headers.Contains("X-Request-Id")) request.Headers.Add("X-Request-Id", Guid.NewGuid().ToString());
            if (isEnveloped)
            {
                request.Headers.Remove("Envelope-Credentials");
                request.Headers.Add("Envelope-Credentials", current.Fingerprint);
            }
            var contentType = request.Content?.Headers.ContentType;
            if (isEnveloped && body != null && body.Length > 0)
            {
                body = Encoding.ASCII.GetBytes(current.SealBody(Text(body)));
                contentType = new MediaTypeHeaderValue("application/json");
            }
            for (var attempt = 0; ; attempt += 1)
            {
                try
                {
                    return await Exchange(Copy(request, body, contentType), isEnveloped ? current : null, cancel).ConfigureAwait(false);
                }
                catch (Refusal refusal) when (refusal.Forwarded == "no" && attempt < Retries && refusal.RetryAfter <= LongestWait)
                {
                    await Task.Delay(TimeSpan.FromSeconds(refusal.RetryAfter.Value), cancel).ConfigureAwait(false);
                }
            }
        }

        /// <summary>The request is copied, because .NET can send it only once.</summary>
        private static HttpRequestMessage Copy(HttpRequestMessage request, byte[] body, MediaTypeHeaderValue contentType)
        {
            var copy = new HttpRequestMessage(request.Method, request.RequestUri) { Version = request.Version };
            foreach (var header in request.Headers) copy.Headers.TryAddWithoutValidation(header.Key, header.Value);
            if (body == null) return copy;
            copy.Content = new ByteArrayContent(body);
            copy.Content.Headers.ContentType = contentType;
            return copy;
        }

        /// <param name="opening">Null if nothing is sealed.</param>
        private async Task<HttpResponseMessage> Exchange(HttpRequestMessage request, Envelope opening, CancellationToken cancel)
        {
            HttpResponseMessage response = null;
            byte[] body;
            using (var limit = CancellationTokenSource.CreateLinkedTokenSource(cancel))
            {
                limit.CancelAfter(Timeout);
                try
                {
                    response = await base.SendAsync(request, limit.Token).ConfigureAwait(false);
                    body = await Read(response, limit.Token).ConfigureAwait(false);
                }
                catch (Exception error) when (!(error is OutcomeUnknown))
                {
                    throw new OutcomeUnknown("lost", response, error);
                }
            }
            var status = (int)response.StatusCode;
            var contentType = Header(response.Content?.Headers, "Content-Type");
            var marked = Header(response.Headers, "Envelope");
            if (CheckId && (response.IsSuccessStatusCode || marked != null || IsProblem(contentType)))
            {
                // After one response too many on a connection, each request gets the response to the previous one.
                var id = Header(response.Headers, "X-Request-Id");
                if (id != null && id != Header(request.Headers, "X-Request-Id")) throw new OutcomeUnknown("swapped", response);
            }
            if (request.Method == HttpMethod.Head || status == 204 || status == 304) opening = null;
            var isSealed = opening != null && string.Equals(marked, "sealed", StringComparison.OrdinalIgnoreCase);
            if (isSealed)
            {
                try
                {
                    body = Utf8.GetBytes(opening.OpenBody(Text(body)));
                }
                catch (EnvelopeException error)
                {
                    throw new OutcomeUnknown("not_opened", response, error);
                }
                contentType = Header(response.Headers, "Envelope-Content-Type") ?? "application/json";
            }
            if (status >= 400 && IsProblem(contentType)) Refuse(response, Encoding.UTF8.GetString(body));
            if (status == 502 || status == 503 || status == 504) throw new OutcomeUnknown("status", response);
            if (opening != null && response.IsSuccessStatusCode && !isSealed && body.Length > 0 && !Migrating)
            {
                throw new OutcomeUnknown("unsealed", response);
            }
            response.Content = new ByteArrayContent(body);
            response.Headers.Remove("Envelope-Content-Type");
            if (contentType != null) response.Content.Headers.TryAddWithoutValidation("Content-Type", contentType);
            return response;
        }

        /// <summary>Throws for a problem document from the sidecar.</summary>
        private static void Refuse(HttpResponseMessage response, string problem)
        {
            if (Refusal.Member(problem, "code") == null || Refusal.Member(problem, "request_id") == null) return;
            var status = (int)response.StatusCode;
            var after = Header(response.Headers, "Retry-After") ?? "";
            var refusal = new Refusal(status, problem, Regex.IsMatch(after, "^[0-9]{1,6}\\z") ? int.Parse(after) : (int?)null);
            if (status >= 500 && refusal.Forwarded != "no") throw new OutcomeUnknown("refused", response, refusal);
            throw refusal;
        }

        private async Task<byte[]> Read(HttpResponseMessage response, CancellationToken cancel)
        {
            if (response.Content == null) return new byte[0];
            var part = new byte[65536];
            using (var stream = await response.Content.ReadAsStreamAsync().ConfigureAwait(false))
            using (cancel.Register(() => stream.Dispose()))
            using (var whole = new MemoryStream())
            {
                for (;;)
                {
                    var count = await stream.ReadAsync(part, 0, part.Length, cancel).ConfigureAwait(false);
                    if (count == 0) break;
                    whole.Write(part, 0, count);
                    if (whole.Length > MaxBytes) throw new OutcomeUnknown("too_large", response);
                }
                if (whole.Length < response.Content.Headers.ContentLength) throw new OutcomeUnknown("lost", response);
                return whole.ToArray();
            }
        }

        /// <summary>Matches paths as the sidecar does, ignoring case and a slash at the end.</summary>
        private bool IsEnveloped(string path)
        {
            var lower = path.ToLowerInvariant();
            if (lower.EndsWith("/", StringComparison.Ordinal)) lower = lower.Substring(0, lower.Length - 1);
            if (lower == "/api/s2s/aes-encrypt" || lower == "/api/s2s/aes-decrypt") return false;
            return Prefixes.Any(prefix => (lower + "/").StartsWith(prefix, StringComparison.Ordinal));
        }

        private static bool IsProblem(string contentType) =>
            contentType != null && Regex.IsMatch(contentType, "^application/problem\\+json\\b", RegexOptions.IgnoreCase);

        internal static string Header(HttpHeaders headers, string name) =>
            headers != null && headers.Contains(name) ? string.Join(", ", headers.GetValues(name)) : null;

        private static string Text(byte[] body)
        {
            try
            {
                return Utf8.GetString(body);
            }
            catch (ArgumentException)
            {
                throw new EnvelopeException("not_utf8", "the body is not UTF-8");
            }
        }
    }
}
