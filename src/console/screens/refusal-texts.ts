/** Each refusal that an account can meet, in a sentence for those who look after it. By its code. */
export const refusalTexts: Readonly<Record<string, string>> = {
  environment_mismatch: 'A test key was sent to a live host, or a live key to a test host.',
  key_not_permitted: 'A public key was used on a route that takes secret keys only.',
  account_inactive: 'The account is deactivated here.',
  method_not_allowed: 'The route exists, but not with this method.',
  envelope_required:
    'Encryption is on, and the request was plain JSON. The merchant has not switched over, or there is no grace.',
  envelope_malformed: 'The body was not {"data":"…"} alone: other members beside it, another name, or no JSON.',
  decryption_failed: 'The envelope did not open: a wrong key or IV, a wrong encoding, or text that is not JSON.',
  encryption_not_supported: 'An envelope was sent to a route that takes plain JSON.',
  unsupported_content_encoding: 'The request body was compressed.',
  body_too_large: 'The request body is larger than the limit.',
  request_timeout: 'The request did not arrive in whole in time.',
  too_many_attempts: 'Too many envelopes that do not open came from this key; it has to wait.',
  overloaded: 'This sidecar had no room for the request.',
  accounts_unavailable: 'The accounts could not be read.',
  upstream_unavailable: 'The payment core could not be reached.',
  upstream_timeout: 'The payment core did not answer in time.',
  sealing_failed: 'The response could not be sealed, and was not sent.',
  internal_error: 'The sidecar failed; its log says more under the request id.',
};
