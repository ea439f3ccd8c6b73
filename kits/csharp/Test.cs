using System;
using EnvelopeSidecar;

/// <summary>Tests what the vectors cannot express.</summary>
internal static class Test
{
    private const string Key = "demo-key-of-acme-not-a-secret-32", Iv = "demo-iv-of-acme-";

    private static void Main()
    {
        var envelope = new Envelope(Key, Iv);
        Check("the self-test passes", Envelope.Selftest() == 8);
        Check("white space around data", envelope.OpenBody(" {\"data\" : \"" + envelope.Seal("{}") + "\"}\n") == "{}");
        Check("a byte order mark is kept", envelope.Open(envelope.Seal("\ufeff{}")) == "\ufeff{}");
        Refuses("not_utf8", () => envelope.Seal("\ud83d"));
        Refuses("not_utf8", () => envelope.Seal(null));
        Refuses("malformed", () => envelope.Open(null));
        Refuses("key_empty", () => new Envelope(null, Iv));
        Refuses("key_decoded", () => new Envelope(Key.Substring(1) + "\ud83d", Iv));
        foreach (var body in new[] { "{}", "[]", "{\"data\":1}", "{\"data\":\"00\",\"a\":1}", "{\"data\":\"00\",\"data\":\"00\"}", "{\"Data\":\"00\"}", "" })
        {
            Refuses("malformed", () => envelope.OpenBody(body));
        }
        Check("a large body", envelope.OpenBody(envelope.SealBody(new string('x', 300000))).Length == 300000);
    }

    private static void Refuses(string code, Action run)
    {
        try
        {
            run();
        }
        catch (EnvelopeException error)
        {
            Check(error.Code + " instead of " + code, error.Code == code);
            return;
        }
        Check("nothing instead of " + code, false);
    }

    private static void Check(string name, bool isRight)
    {
        if (!isRight) throw new Exception(name);
    }
}
