"""Envelopes of envelope-sidecar: AES-256-CBC with PKCS#7 padding, in hex or base64.

The core of the kit: one file that needs only `cryptography` and may be copied. Version 0.2.0, MIT licence.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from typing import Any, Optional, Tuple

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

__all__ = ["Compat", "Envelope", "EnvelopeError", "selftest"]

#: The messages for bad credentials, by code. No message contains any part of a key, an IV or a plaintext.
FLAWS = {
    "empty": "is empty",
    "decoded": "was decoded: pass the string as you were given it",
    "nul": "contains NUL bytes: pass the string as you were given it",
    "quoted": "is in quotes: remove them",
    "space": "begins or ends with white space: remove it",
    "pem": "is a PEM file: pass the string of 32 characters",
    "api_key": "is an API key: pass the encryption key and its IV",
    "hex": "is in hex: pass the string as you were given it",
    "base64": "is in base64: set the key text to base64, or pass the string of 32 characters",
    "not_base64": "is not base64, which the key text says",
    "length": "has the wrong length: a key has 32 bytes, an IV 16",
}


class EnvelopeError(Exception):
    """Credentials that cannot be right, text that cannot be sealed, or data that does not open.

    `code` is such as `key_quoted`, `malformed` or `decryption_failed`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Envelope:
    """Seals and opens with the credentials of one account in one environment. Printing it shows neither key nor IV."""

    __slots__ = ("__cipher", "__encoding", "fingerprint")

    def __init__(self, key: str, iv: str, key_text: str = "text", encoding: str = "hex") -> None:
        """Raises EnvelopeError if the key or the IV cannot be right; its code names the mistake."""
        if key_text not in ("text", "base64") or encoding not in ("hex", "base64"):
            raise ValueError("key_text is text or base64, encoding is hex or base64")
        key_bytes, iv_bytes = _read_base64(key, iv) if key_text == "base64" else _read_text(key, iv)
        self.__cipher = Cipher(algorithms.AES(key_bytes), modes.CBC(iv_bytes))
        self.__encoding = encoding
        #: Names the credentials without showing them: the first 16 hex digits of SHA-256(key bytes, IV bytes).
        self.fingerprint = hashlib.sha256(key_bytes + iv_bytes).hexdigest()[:16]

    def seal(self, text: str) -> str:
        """The ciphertext of a JSON text, without the object around it."""
        if not isinstance(text, str):
            raise EnvelopeError("not_utf8", "the text is not a str")
        try:
            plaintext = text.encode("utf-8")
        except UnicodeEncodeError:
            raise EnvelopeError("not_utf8", "the text is not Unicode") from None
        padder = PKCS7(128).padder()
        encryptor = self.__cipher.encryptor()
        ciphertext = encryptor.update(padder.update(plaintext) + padder.finalize()) + encryptor.finalize()
        return ciphertext.hex() if self.__encoding == "hex" else base64.b64encode(ciphertext).decode("ascii")

    def seal_json(self, value: Any) -> str:
        """Raises EnvelopeError `not_json` for a value that JSON cannot express, NaN included."""
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError):
            raise EnvelopeError("not_json", "the value has no JSON") from None
        return self.seal(text)

    def open(self, data: str) -> str:
        """The text that was sealed, from hex or base64. Raises EnvelopeError `malformed` or `decryption_failed`."""
        ciphertext = _decode(data)
        try:
            decryptor = self.__cipher.decryptor()
            unpadder = PKCS7(128).unpadder()
            plaintext = unpadder.update(decryptor.update(ciphertext) + decryptor.finalize()) + unpadder.finalize()
            return plaintext.decode("utf-8", "strict")
        except ValueError:
            # The reason would reveal whether the padding or the text is wrong, and is of no use.
            raise EnvelopeError("decryption_failed", "wrong key or IV, or the data was changed on the way") from None

    def open_json(self, data: str) -> Any:
        """Raises EnvelopeError as `open`, or `not_json`."""
        text = self.open(data)
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise EnvelopeError("not_json", "the plaintext is not JSON") from None

    def seal_body(self, text: str) -> str:
        """The body of a request: `{"data":"…"}`."""
        return '{"data":"' + self.seal(text) + '"}'

    def open_body(self, body: str) -> str:
        """The text in the body of a response: an object whose only member is `data`."""
        match = re.fullmatch(r'[ \t\r\n]*\{[ \t\r\n]*"data"[ \t\r\n]*:[ \t\r\n]*"([0-9A-Za-z+/=]*)"[ \t\r\n]*\}[ \t\r\n]*', body)
        if match is None:
            raise EnvelopeError("malformed", 'the body is not {"data":"…"}')
        return self.open(match[1])

    def compat(self) -> Compat:
        """For code that expects an empty string or null instead of errors."""
        return Compat(self)

    def __repr__(self) -> str:
        return f"Envelope({self.fingerprint})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("an Envelope is not serialised")


class Compat:
    """Returns `""` for text that cannot be sealed, and None for data that does not open."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope

    def seal(self, text: str) -> str:
        try:
            return self._envelope.seal(text)
        except EnvelopeError:
            return ""

    def open(self, data: str) -> Optional[str]:
        try:
            return self._envelope.open(data)
        except EnvelopeError:
            return None


def _read_text(key: str, iv: str) -> Tuple[bytes, bytes]:
    _refuse_flaws(key, iv)
    key_bytes, whole_iv, iv_bytes = key.encode(), iv.encode(), iv[:16].encode()
    if len(key_bytes) == 16 and len(whole_iv) == 32:
        raise EnvelopeError("swapped", "the key and the IV are swapped")
    if re.fullmatch(r"[0-9a-fA-F]{64}", key):
        _refuse("key", "hex")
    if re.fullmatch(r"[A-Za-z0-9+/]{43}=", key):
        _refuse("key", "base64")
    if len(key_bytes) != 32:
        _refuse("key", "decoded" if len(key_bytes) == 24 else "length")
    if key == iv:
        raise EnvelopeError("iv_is_key", "the IV is the key")
    # Only the hex of printable text is refused, because other hex digits may well be an IV.
    if re.fullmatch(r"(?:[2-6][0-9a-fA-F]|7[0-9a-eA-E]){16}", iv):
        _refuse("iv", "hex")
    if len(iv_bytes) != 16:
        _refuse("iv", "decoded" if len(whole_iv) == 12 else "length")
    return key_bytes, iv_bytes


def _read_base64(key: str, iv: str) -> Tuple[bytes, bytes]:
    _refuse_flaws(key, iv)
    key_bytes, iv_bytes = _strict_base64(key), _strict_base64(iv)
    if key_bytes is not None and iv_bytes is not None and (len(key_bytes), len(iv_bytes)) == (16, 32):
        raise EnvelopeError("swapped", "the key and the IV are swapped")
    if key_bytes is None or len(key_bytes) != 32:
        _refuse("key", "not_base64" if key_bytes is None else "length")
    if iv_bytes is None or len(iv_bytes) != 16:
        _refuse("iv", "not_base64" if iv_bytes is None else "length")
    return key_bytes, iv_bytes  # type: ignore[return-value]


def _refuse_flaws(key: Any, iv: Any) -> None:
    for name, value in (("key", key), ("iv", iv)):
        if value is None or value == "" or value == b"":
            _refuse(name, "empty")
        if not isinstance(value, str) or re.search("[\ufffd\ud800-\udfff]", value):
            _refuse(name, "decoded")
        if "\0" in value:
            _refuse(name, "nul")
        if re.fullmatch(r"""(["']).*\1""", value, re.DOTALL):
            _refuse(name, "quoted")
        if value != value.strip(" \t\r\n"):
            _refuse(name, "space")
        if value.startswith("-----BEGIN"):
            _refuse(name, "pem")
        if re.match(r"[ps]k_(?:test|live)_", value):
            _refuse(name, "api_key")


def _refuse(name: str, flaw: str) -> None:
    raise EnvelopeError(f"{name}_{flaw}", f"the {'key' if name == 'key' else 'IV'} {FLAWS[flaw]}")


def _decode(data: str) -> bytes:
    """Hex digits in either case are read as hex, everything else as base64."""
    if not isinstance(data, str):
        raise EnvelopeError("malformed", "the data is not a str")
    is_hex = re.fullmatch(r"(?:[0-9a-fA-F]{2})+", data) is not None
    ciphertext = bytes.fromhex(data) if is_hex else _strict_base64(data)
    if ciphertext is None:
        raise EnvelopeError("malformed", "the data is neither hex nor base64")
    if len(ciphertext) == 0 or len(ciphertext) % 16 != 0:
        raise EnvelopeError("malformed", "the data is not a whole number of blocks: was it cut?")
    return ciphertext


def _strict_base64(text: str) -> Optional[bytes]:
    """Python skips some of what is not base64, so the text is valid only if encoding the bytes yields it again."""
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return decoded if base64.b64encode(decoded).decode("ascii") == text else None


_DEMO = {"key": "demo-key-of-acme-not-a-secret-32", "iv": "demo-iv-of-acme-"}
_SEALED = (
    ("hex", '{"amount":1500}', "b1cfe5cf79092760fa94b1d5aa17a154"),
    ("base64", '{"name":"Zo\u00eb \u20ac"}', "eH7i+tysjZUva7EzowKts3gpbWWDCyxUWxroNUMbR8g="),
)
_REFUSED = {
    "cut": "b1cfe5cf79092760fa94b1d5aa17a15400",
    "padding": "c39659865b67270102e9ded9196d0a29",
    "UTF-8": "75135cc672b20db60081c364bf80ba98",
}


def selftest() -> int:
    """Checks this machine with vectors from OpenSSL. Returns their number. Raises EnvelopeError `selftest_failed`."""

    def check(name: str, right: bool) -> None:
        if not right:
            raise EnvelopeError("selftest_failed", name)

    check("fingerprint", Envelope(**_DEMO).fingerprint == "3e2af6e2f2d786fd")
    for encoding, text, data in _SEALED:
        envelope = Envelope(**_DEMO, encoding=encoding)
        check(f"seal {encoding}", envelope.seal(text) == data)
        check(f"open {encoding}", envelope.open(data) == text)
    for name, data in _REFUSED.items():
        check(name, Envelope(**_DEMO).compat().open(data) is None)
    return 1 + 2 * len(_SEALED) + len(_REFUSED)
