/** The shipped accounts that the demo uses: one that encrypts and one that does not, with keys in the clear. */
export interface DemoAccounts {
  readonly accounts: readonly {
    readonly id: string;
    readonly keys: readonly { readonly key?: string }[];
    readonly encryption?: { readonly test?: { readonly key: string; readonly iv: string } };
  }[];
}

/** An operator of the demo. */
export interface DemoOperator {
  readonly role: string;
  readonly token: string;
}

/**
 * Commands that can be pasted into a POSIX shell with curl, openssl, od and perl.
 *
 * @param urls the URLs of the merchants' listener, without a trailing slash, and of the console
 */
export function demoCommands(
  urls: { readonly merchants: string; readonly console: string },
  accounts: DemoAccounts['accounts'],
  operators: readonly DemoOperator[],
): string {
  const base = urls.merchants;
  const encrypting = accounts.find(({ encryption }) => encryption?.test !== undefined);
  const plain = accounts.find(({ encryption }) => encryption === undefined);
  const credentials = encrypting?.encryption?.test;
  const secretKey = (account: typeof plain): string =>
    account?.keys.find(({ key }) => key?.startsWith('sk_test_') === true)?.key ?? '';
  const publicKey = plain?.keys.find(({ key }) => key?.startsWith('pk_test_') === true)?.key ?? '';
  const payment = `'{"amount":1000,"currency":"EUR"}'`;
  const post = (path: string, key: string, data: string): string => `curl -sw '\\n' ${base}${path} \\
  -H 'Authorization: Bearer ${key}' \\
  -H 'Content-Type: application/json' -d ${data}`;
  // The comments below contain no quotes or semicolons, because some shells treat pasted comments as commands.
  const links = operators.map(({ role, token }) => `  ${role.padEnd(10)}${urls.console}#/sign-in/${token}\n`).join('');
  return `
The console: ${urls.console}
Each link signs in with a role; the part after the last slash is the token:
${links}
Paste these into another terminal.

# ${encrypting?.id} encrypts: seal a charge, send it, see the sealed response, open it.
hex() { od -An -v -tx1 | tr -d ' \\n'; }
aes() { openssl enc -aes-256-cbc -K "$KEY_HEX" -iv "$IV_HEX" "$@"; }
KEY_HEX=$(printf %s '${credentials?.key}' | hex)
IV_HEX=$(printf %.16s '${credentials?.iv}' | hex)
DATA=$(printf %s ${payment} | aes | hex)
RESPONSE=$(${post('/api/s2s/charge', secretKey(encrypting), String.raw`"{\"data\":\"$DATA\"}"`)})
echo "$RESPONSE"
echo "$RESPONSE" | perl -ne 'print pack "H*", $1 if /"data":"([0-9a-f]+)"/' \\
  | aes -d; echo

# ${plain?.id} does not encrypt: the same charge in plain JSON.
${post('/api/s2s/charge', secretKey(plain), payment)}

# What a browser may do with a public key.
${post('/api/v1/transactions/initialize', publicKey, payment)}

# Refused: plain JSON from the account that encrypts.
${post('/api/s2s/charge', secretKey(encrypting), payment)}

# Refused: a public key where only a server may call.
curl -sw '\\n' ${base}/api/s2s/transactions \\
  -H 'Authorization: Bearer ${publicKey}'

# A test endpoint: no API key, the key and IV in headers.
curl -sw '\\n' ${base}/api/s2s/aes-encrypt \\
  -H 'key: ${credentials?.key}' -H 'iv: ${credentials?.iv}' \\
  -H 'Content-Type: application/json' -d '{ "amount": 1000 }'

`;
}
