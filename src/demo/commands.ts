/** What the demo needs of the shipped accounts file: an encrypting account and a plain one, with keys in the clear. */
export interface DemoAccounts {
  readonly accounts: readonly {
    readonly id: string;
    readonly keys: readonly { readonly key?: string }[];
    readonly encryption?: { readonly test?: { readonly key: string; readonly iv: string } };
  }[];
}

/**
 * Shell commands that work as pasted: for a POSIX shell with curl, openssl, od and perl.
 *
 * @param base URL of the merchants' listener, without a trailing slash
 */
export function demoCommands(base: string, { accounts }: DemoAccounts): string {
  const encrypting = accounts.find(({ encryption }) => encryption?.test !== undefined);
  const plain = accounts.find(({ encryption }) => encryption === undefined);
  const credentials = encrypting?.encryption?.test;
  const secretKey = (account: typeof plain): string =>
    account?.keys.find(({ key }) => key?.startsWith('sk_test_') === true)?.key ?? '';
  const publicKey = plain?.keys.find(({ key }) => key?.startsWith('pk_test_') === true)?.key ?? '';
  const cipher = 'openssl enc -aes-256-cbc -K "$KEY" -iv "$IV"';
  const toHex = "od -An -v -tx1 | tr -d ' \\n'";
  const json = "-H 'Content-Type: application/json'";
  return `
Paste these into another terminal.

# ${encrypting?.id} encrypts: seal a charge with openssl, send it, see the sealed answer, open it.
KEY=$(printf %s '${credentials?.key}' | ${toHex}); IV=$(printf %.16s '${credentials?.iv}' | ${toHex})
DATA=$(printf %s '{"amount":1000,"currency":"USD"}' | ${cipher} | ${toHex})
ANSWER=$(curl -s ${base}/api/s2s/charge -H 'Authorization: Bearer ${secretKey(encrypting)}' ${json} -d "{\\"data\\":\\"$DATA\\"}"); echo "$ANSWER"
echo "$ANSWER" | perl -ne 'print pack "H*", $1 if /"data":"([0-9a-f]+)"/' | ${cipher} -d; echo

# ${plain?.id} does not encrypt: the same charge in plain JSON, and what a browser may do with a public key.
curl -s ${base}/api/s2s/charge -H 'Authorization: Bearer ${secretKey(plain)}' ${json} -d '{"amount":1000,"currency":"USD"}'; echo
curl -s ${base}/api/v1/transactions/initialize -H 'Authorization: Bearer ${publicKey}' ${json} -d '{"amount":1000,"currency":"USD"}'; echo

# Refused: plain JSON from the encrypting account; a public key on a server's endpoint.
curl -s ${base}/api/s2s/charge -H 'Authorization: Bearer ${secretKey(encrypting)}' ${json} -d '{"amount":1000,"currency":"USD"}'; echo
curl -s ${base}/api/s2s/transactions -H 'Authorization: Bearer ${publicKey}'; echo

# The test endpoints: no API key, the key and IV in headers.
curl -s ${base}/api/s2s/aes-encrypt -H 'key: ${credentials?.key}' -H 'iv: ${credentials?.iv}' ${json} -d '{ "amount": 1000 }'; echo

`;
}
