"""Runs this kit for kits/conformance: one JSON object per line on stdin, one outcome per line on stdout."""

import json
import pickle
import sys

from envelope import Envelope, EnvelopeError, selftest
from envelope_requests import EnvelopeSession, OutcomeUnknown, Refusal

current = None
#: One client for each set of options. It is kept during rotations.
sessions = {}


def envelope_of(operation):
    names = ("key", "iv", "key_text", "encoding")
    return Envelope(**{name: operation[name] for name in names if name in operation})


def call(operation):
    global current
    current = envelope_of(operation)
    options = {
        "migrating": operation.get("migrating", False),
        "timeout": operation.get("timeout_ms", 10_000) / 1000,
        "max_bytes": operation.get("max_bytes", 65_536),
        "check_id": not operation.get("any_id", False),
    }
    session = sessions.setdefault(str(options), EnvelopeSession(lambda: current, **options))
    body = operation["body"].encode("utf-8") if "body" in operation else None
    response = session.request(operation["method"], operation["url"], headers=operation.get("headers"), data=body)
    content = response.content.decode("utf-8")
    return {"status": response.status_code, "type": response.headers.get("Content-Type"), "body": content}


def shown(envelope):
    texts = [str(envelope), repr(envelope), f"{envelope}", repr(getattr(envelope, "__dict__", None))]
    for serialise in (json.dumps, pickle.dumps):
        try:
            texts.append(str(serialise(envelope)))
        except TypeError as error:
            texts.append(str(error))
    return texts


def run(operation):
    op = operation["op"]
    if op == "clients":
        return {"clients": ["requests"]}
    if op == "selftest":
        return {"passed": selftest()}
    if op == "call":
        return call(operation)
    envelope = envelope_of(operation)
    if op == "seal":
        return {"data": envelope.seal(operation["plaintext"])}
    if op == "open":
        return {"plaintext": envelope.open(operation["data"])}
    if op == "fingerprint":
        return {"fingerprint": envelope.fingerprint}
    if op == "show":
        return {"shown": shown(envelope)}
    if op == "compat":
        return {"plaintext": envelope.compat().open(operation["data"]), "data": envelope.compat().seal("\ud800")}
    return {"error": {"type": "driver", "code": "unknown_op"}}


def refusal_of(error):
    names = ("status", "code", "hint", "request_id", "retry_after", "forwarded")
    return {"type": "refusal", "message": str(error), **{name: getattr(error, name) for name in names}}


def outcome(operation):
    try:
        return run(operation)
    except EnvelopeError as error:
        return {"error": {"type": "envelope", "code": error.code, "message": str(error)}}
    except Refusal as error:
        return {"error": refusal_of(error)}
    except OutcomeUnknown as error:
        more = {"status": error.status, "request_id": error.request_id, "message": str(error)}
        refusal = refusal_of(error.refusal) if error.refusal else None
        return {"error": {"type": "outcome_unknown", "code": error.reason, "refusal": refusal, **more}}


for line in sys.stdin:
    print(json.dumps(outcome(json.loads(line))), flush=True)
