using System;
using System.Collections.Generic;
using System.IO;
using System.Json;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Text;
using EnvelopeSidecar;

/// <summary>Runs this kit for kits/conformance: one JSON object per line on stdin, one outcome per line on stdout.</summary>
internal static class Driver
{
    /// <summary>One client for each set of options. It is kept during rotations.</summary>
    private static readonly Dictionary<string, HttpClient> Clients = new Dictionary<string, HttpClient>();
    private static Envelope current;

    private static void Main()
    {
        ServicePointManager.Expect100Continue = false;
        var input = new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false));
        var output = new StreamWriter(Console.OpenStandardOutput(), new UTF8Encoding(false)) { AutoFlush = true, NewLine = "\n" };
        for (var line = input.ReadLine(); line != null; line = input.ReadLine())
        {
            JsonValue outcome;
            try
            {
                outcome = Run((JsonObject)JsonValue.Parse(line));
            }
            catch (Exception error)
            {
                outcome = new JsonObject { { "error", ErrorIn(error) } };
            }
            output.WriteLine(outcome.ToString());
        }
    }

    private static JsonObject Run(JsonObject operation)
    {
        switch (Text(operation, "op"))
        {
            case "clients": return new JsonObject { { "clients", new JsonArray("httpclient") } };
            case "selftest": return new JsonObject { { "passed", Envelope.Selftest() } };
        }
        var envelope = new Envelope(
            Text(operation, "key"),
            Text(operation, "iv"),
            Text(operation, "key_text") == "base64" ? KeyText.Base64 : KeyText.Text,
            Text(operation, "encoding") == "base64" ? Encoded.Base64 : Encoded.Hex);
        switch (Text(operation, "op"))
        {
            case "call":
                current = envelope;
                return Call(operation);
            case "seal": return new JsonObject { { "data", envelope.Seal(Text(operation, "plaintext")) } };
            case "open": return new JsonObject { { "plaintext", envelope.Open(Text(operation, "data")) } };
            case "fingerprint": return new JsonObject { { "fingerprint", envelope.Fingerprint } };
            case "show": return new JsonObject { { "shown", new JsonArray(envelope.ToString(), Serialised(envelope)) } };
            case "compat":
                return new JsonObject
                {
                    { "plaintext", OrNull(envelope.Compat().Open(Text(operation, "data"))) },
                    { "data", envelope.Compat().Seal("\ud800") },
                };
            default: return new JsonObject { { "error", new JsonObject { { "type", "driver" }, { "code", "unknown_op" } } } };
        }
    }

    private static JsonObject Call(JsonObject operation)
    {
        var migrating = operation.ContainsKey("migrating") && (bool)operation["migrating"];
        var timeout = operation.ContainsKey("timeout_ms") ? (int)operation["timeout_ms"] : 10000;
        var maxBytes = operation.ContainsKey("max_bytes") ? (int)operation["max_bytes"] : 65536;
        var checkId = !operation.ContainsKey("any_id") || !(bool)operation["any_id"];
        var name = migrating + " " + timeout + " " + maxBytes + " " + checkId;
        if (!Clients.ContainsKey(name))
        {
            Clients[name] = new HttpClient(new EnvelopeHandler(() => current)
            {
                Migrating = migrating,
                Timeout = TimeSpan.FromMilliseconds(timeout),
                MaxBytes = maxBytes,
                CheckId = checkId,
            });
        }
        var request = new HttpRequestMessage(new HttpMethod(Text(operation, "method")), Text(operation, "url"));
        var body = Text(operation, "body");
        if (body != null) request.Content = new StringContent(body, new UTF8Encoding(false), "application/json");
        foreach (var header in operation.ContainsKey("headers") ? (JsonObject)operation["headers"] : new JsonObject())
        {
            if (header.Key != "Content-Type") request.Headers.Add(header.Key, (string)header.Value);
        }
        using (var response = Clients[name].SendAsync(request).GetAwaiter().GetResult())
        {
            var contentType = response.Content.Headers.Contains("Content-Type") ? response.Content.Headers.GetValues("Content-Type").First() : null;
            var text = Encoding.UTF8.GetString(response.Content.ReadAsByteArrayAsync().GetAwaiter().GetResult());
            return new JsonObject { { "status", (int)response.StatusCode }, { "type", OrNull(contentType) }, { "body", text } };
        }
    }

    /// <summary>What serialisers see: the public properties.</summary>
    private static string Serialised(Envelope envelope) =>
        string.Join(", ", envelope.GetType().GetProperties().Select(each => each.Name + ": " + each.GetValue(envelope)));

    private static JsonObject ErrorIn(Exception error)
    {
        var found = new JsonObject { { "type", "other" }, { "message", error.Message } };
        if (error is EnvelopeException flaw)
        {
            found["type"] = "envelope";
            found["code"] = flaw.Code;
        }
        else if (error is Refusal refusal)
        {
            found["type"] = "refusal";
            found["status"] = refusal.Status;
            found["code"] = refusal.Code;
            found["hint"] = OrNull(refusal.Hint);
            found["request_id"] = refusal.RequestId;
            if (refusal.RetryAfter != null) found["retry_after"] = refusal.RetryAfter.Value;
            found["forwarded"] = refusal.Forwarded;
        }
        else if (error is OutcomeUnknown unknown)
        {
            found["type"] = "outcome_unknown";
            found["status"] = unknown.Status;
            found["code"] = unknown.Reason;
            found["request_id"] = OrNull(unknown.RequestId);
            if (unknown.InnerException is Refusal) found["refusal"] = ErrorIn(unknown.InnerException);
        }
        else found["message"] = error.ToString();
        return found;
    }

    /// <summary>System.Json would write "" for a null string.</summary>
    private static JsonValue OrNull(string text) => text == null ? null : new JsonPrimitive(text);

    private static string Text(JsonObject operation, string name) =>
        operation.ContainsKey(name) ? (string)operation[name] : null;
}
