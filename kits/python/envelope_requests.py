"""`requests` for merchants of envelope-sidecar: seals requests, opens responses, raises typed errors. See README.md."""

from __future__ import annotations

import json
import re
import time
import uuid
from typing import Any, Callable, Mapping, Optional, Sequence
from urllib.parse import urlsplit

import requests

from envelope import Envelope, EnvelopeError

__all__ = ["EnvelopeSession", "OutcomeUnknown", "Refusal"]

#: If `Retry-After` exceeds this many seconds, waiting is left to the caller.
LONGEST_WAIT = 60


class Refusal(Exception):
    """The sidecar refused the request. Decide by `code`, never by the status.

    `forwarded` is `no` if the core has not seen it, otherwise `maybe`; `retry_after` is in seconds.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after: Optional[int]) -> None:
        hint = problem.get("hint")
        super().__init__(f"{status} {problem['code']}: {hint or problem.get('detail', '')}")
        self.status = status
        self.code: str = problem["code"]
        self.hint: Optional[str] = hint if isinstance(hint, str) else None
        self.request_id: str = problem["request_id"]
        self.retry_after = retry_after
        self.forwarded = "no" if problem.get("forwarded") == "no" else "maybe"


class OutcomeUnknown(Exception):
    """The payment may have been made: look it up by your reference before you send it again.

    `reason` is lost, swapped, status, refused (then `refusal` says more), unsealed, not_opened or too_large.
    """

    def __init__(
        self, reason: str, response: Optional[requests.Response] = None, refusal: Optional[Refusal] = None
    ) -> None:
        super().__init__(f"the outcome is unknown: {reason}" + (f", {response.status_code}" if response is not None else ""))
        self.reason = reason
        self.status = response.status_code if response is not None else None
        self.request_id = response.headers.get("X-Request-Id") if response is not None else None
        self.refusal = refusal


class EnvelopeSession(requests.Session):
    """A session that raises EnvelopeError (nothing was sent), Refusal or OutcomeUnknown. Follows no redirects.

    envelope: returns the credentials to use; called for each request, so that a rotation needs no restart
    prefixes: paths whose bodies are sealed; the two test endpoints are never among them
    migrating: whether a 2xx may be unsealed; use this only while an account starts or stops encrypting
    timeout: the longest wait for a connection, and for a whole response, in seconds
    max_bytes: the longest body of a response, as sent
    retries: the maximum number of times that a request is sent again if the core has not seen it
    check_id: whether a response must have its request's X-Request-Id; False behind a gateway that replaces it
    """

    def __init__(
        self,
        envelope: Callable[[], Envelope],
        *,
        prefixes: Sequence[str] = ("/api/s2s/",),
        migrating: bool = False,
        timeout: float = 60,
        max_bytes: int = 16 * 1024 * 1024,
        retries: int = 2,
        check_id: bool = True,
    ) -> None:
        super().__init__()
        self._envelope, self._prefixes, self._migrating = envelope, tuple(prefixes), migrating
        self._timeout, self._max_bytes, self._retries, self._check_id = timeout, max_bytes, retries, check_id

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        kwargs.update(allow_redirects=False, stream=True, timeout=kwargs.get("timeout") or self._timeout)
        envelope = self._envelope()
        enveloped = self._is_enveloped(urlsplit(request.url or "").path)
        request = request.copy()
        request.headers.setdefault("X-Request-Id", str(uuid.uuid4()))
        if enveloped:
            request.headers["Envelope-Credentials"] = envelope.fingerprint
            if request.body:
                sealed = envelope.seal_body(_request_text(request.body)).encode("ascii")
                request.headers["Content-Type"] = "application/json"
                request.headers.pop("Transfer-Encoding", None)
                request.prepare_body(sealed, None)
        opening = envelope if enveloped and request.method != "HEAD" else None
        attempt = 0
        while True:
            try:
                return self._exchange(request, opening, kwargs)
            except Refusal as refusal:
                if refusal.forwarded != "no" or attempt == self._retries:
                    raise
                if refusal.retry_after is None or refusal.retry_after > LONGEST_WAIT:
                    raise
                attempt += 1
                time.sleep(refusal.retry_after)

    def _is_enveloped(self, path: str) -> bool:
        """Matches paths as the sidecar does, ignoring case and a slash at the end."""
        path = path.lower().rstrip("/")
        return path not in ("/api/s2s/aes-encrypt", "/api/s2s/aes-decrypt") and (path + "/").startswith(self._prefixes)

    def _exchange(
        self, request: requests.PreparedRequest, envelope: Optional[Envelope], kwargs: Mapping[str, Any]
    ) -> requests.Response:
        """`envelope` is None if nothing is sealed."""
        deadline = time.monotonic() + self._timeout
        try:
            response = super().send(request, **kwargs)
        except requests.RequestException as error:
            raise OutcomeUnknown("lost") from error
        headers, status = response.headers, response.status_code
        content = self._read(response, deadline)
        content_type = headers.get("Content-Type")
        received = headers.get("X-Request-Id")
        is_ours = response.ok and status < 300 or "Envelope" in headers or _is_problem(content_type)
        if self._check_id and is_ours and received not in (None, request.headers["X-Request-Id"]):
            # After one response too many on a connection, each request gets the response to the previous one.
            raise OutcomeUnknown("swapped", response)
        sealed = envelope is not None and headers.get("Envelope", "").lower() == "sealed" and status not in (204, 304)
        if envelope is not None and sealed:
            try:
                content = envelope.open_body(content.decode("utf-8")).encode("utf-8")
            except (EnvelopeError, UnicodeDecodeError) as error:
                raise OutcomeUnknown("not_opened", response) from error
            content_type = headers.pop("Envelope-Content-Type", "application/json")
        problem = _problem_in(content) if status >= 400 and _is_problem(content_type) else None
        if problem is not None:
            after = headers.get("Retry-After", "")
            refusal = Refusal(status, problem, int(after) if re.fullmatch("[0-9]{1,6}", after) else None)
            if status >= 500 and refusal.forwarded != "no":
                raise OutcomeUnknown("refused", response, refusal)
            raise refusal
        if status in (502, 503, 504):
            raise OutcomeUnknown("status", response)
        if envelope is not None and 200 <= status < 300 and not sealed and content and not self._migrating:
            raise OutcomeUnknown("unsealed", response)
        response._content = content
        if sealed:
            headers.pop("Content-Length", None)
            headers["Content-Type"] = content_type or ""
            response.encoding = requests.utils.get_encoding_from_headers(headers)
        return response

    def _read(self, response: requests.Response, deadline: float) -> bytes:
        content = bytearray()
        try:
            for chunk in response.iter_content(65_536):
                content += chunk
                if len(content) > self._max_bytes:
                    raise OutcomeUnknown("too_large", response)
                if time.monotonic() > deadline:
                    raise OutcomeUnknown("lost", response)
        except requests.RequestException as error:
            raise OutcomeUnknown("lost", response) from error
        finally:
            response.close()
        return bytes(content)


def _request_text(body: Any) -> str:
    if not isinstance(body, (str, bytes)):
        raise EnvelopeError("not_utf8", "the body must be a str or bytes")
    try:
        return body if isinstance(body, str) else body.decode("utf-8")
    except UnicodeDecodeError:
        raise EnvelopeError("not_utf8", "the body is not UTF-8") from None


def _is_problem(content_type: Optional[str]) -> bool:
    return re.match(r"application/problem\+json\b", content_type or "", re.IGNORECASE) is not None


def _problem_in(content: bytes) -> Optional[Mapping[str, Any]]:
    """None if this is not a problem document from the sidecar."""
    try:
        problem = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(problem, dict):
        return None
    return problem if isinstance(problem.get("code"), str) and isinstance(problem.get("request_id"), str) else None
