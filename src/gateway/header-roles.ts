/** Read by the sidecar itself; some go on in a form of its own. */
const read =
  'host authorization connection content-length transfer-encoding expect upgrade x-request-id x-forwarded-for ' +
  'x-forwarded-proto x-forwarded-host forwarded content-type content-encoding origin access-control-request-method ' +
  'traceparent envelope-credentials';

/** The sidecar's own word to the upstream, and what is between two neighbours only. */
const dropped =
  'x-account-id x-api-key-id x-api-key-kind x-environment ' +
  'keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer http2-settings';

/** Some frameworks take the method or the path from these, after both have been decided on here. */
const overriding = 'x-http-method-override x-http-method x-method-override x-original-url x-rewrite-url';

/** True of untouched traffic only. */
const plain = 'accept-encoding range etag digest content-digest repr-digest content-md5 accept-ranges';

/** Cores believe these about who a client is: only a trusted proxy may say so. */
const client =
  'x-real-ip true-client-ip cf-connecting-ip cf-connecting-ipv6 x-client-ip x-cluster-client-ip fastly-client-ip';

/** What the sidecar does with a client's header of this name. One that is not listed goes to the upstream as it is. */
const roles = new Map(
  Object.entries({ read, dropped: `${dropped} ${overriding}`, plain, client }).flatMap(([role, names]) =>
    names.split(' ').map((name) => [name, role] as const),
  ),
);

/**
 * `read` here, `dropped`, forwarded with `plain` traffic only or from a trusted proxy only (`client`), or undefined: forwarded.
 *
 * @param lower a name in lower case */
export function roleOf(lower: string): string | undefined {
  const role = lower.startsWith('if-') ? 'plain' : roles.get(lower);
  return role ?? (isOwn(lower) || isDisguised(lower) ? 'dropped' : undefined);
}

/**
 * CGI-like upstreams turn every odd character of a header's name into `_`, so `X_Account_Id` would be read as
 * `X-Account-Id`. A name that becomes one of the sidecar's own that way is never an honest client's.
 */
function isDisguised(lower: string): boolean {
  if (!/[^a-z0-9-]/.test(lower)) return false;
  const dashed = lower.replaceAll(/[^a-z0-9-]/g, '-');
  return roles.has(dashed) || isOwn(dashed) || dashed.startsWith('if-') || dashed.startsWith('x-forwarded-');
}

/** Whether only the sidecar itself may say it, in either direction. @param lower a name in lower case */
export function isOwn(lower: string): boolean {
  return lower === 'envelope' || lower.startsWith('envelope-');
}
