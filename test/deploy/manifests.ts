import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';

/** A Kubernetes object that is ready to be applied. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
}

/** The objects that `kubectl apply --kustomize` would apply. */
export function render(folder: string): Manifest[] {
  const text = execFileSync('kubectl', ['kustomize', folder], { encoding: 'utf8' });
  return parseAllDocuments(text).map((document) => unfolded(document.toJS() as Manifest));
}

/** Removes the line breaks that kubectl puts into the base64 of a Secret. The API accepts them, the schema does not. */
function unfolded(manifest: Manifest & { readonly data?: Readonly<Record<string, string>> }): Manifest {
  if (manifest.kind !== 'Secret') return manifest;
  const data = Object.entries(manifest.data ?? {}).map(([name, value]) => [name, value.replaceAll(/\s/g, '')]);
  return Object.assign(manifest, { data: Object.fromEntries(data) as Record<string, string> });
}

/** The module that declares the type of a manifest. Modules are named after the groups and versions of the API. */
function moduleOf({ apiVersion, kind }: Manifest): string {
  const isOwn = apiVersion.startsWith('monitoring.coreos.com/');
  return `${isOwn ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models'}/${apiVersion}/${kind}`;
}

/**
 * The errors that the API's schema finds in manifests. The validators of kubernetes-models check required fields,
 * types, formats and patterns. They accept unknown fields and values outside an enumeration, so each manifest is also
 * compiled as a literal of its TypeScript type, which rejects these.
 */
export async function problemsOf(manifests: readonly Manifest[]): Promise<string[]> {
  const validated = manifests.map(async (manifest) => {
    const { [manifest.kind]: Model } = (await import(moduleOf(manifest))) as Record<
      string,
      (new (data: object) => { validate(): void }) | undefined
    >;
    if (Model === undefined) return `${manifest.kind}: unknown kind`;
    try {
      new Model(manifest).validate();
      return undefined;
    } catch (error) {
      return `${manifest.kind} ${manifest.metadata.name}: ${(error as Error).message}`;
    }
  });
  const problems = (await Promise.all(validated)).filter((problem) => problem !== undefined);
  return [...problems, ...compile(manifests)];
}

function compile(manifests: readonly Manifest[]): string[] {
  // The file is written below node_modules, because TypeScript resolves its imports of packages from its own folder.
  const folder = mkdtempSync(join('node_modules', '.manifests-'));
  try {
    const file = join(folder, 'manifests.ts');
    const source = manifests.map(
      (manifest, index) =>
        `import type { I${manifest.kind} as T${index} } from '${moduleOf(manifest)}';\n` +
        `export const m${index}: T${index} = ${JSON.stringify(manifest)};\n`,
    );
    writeFileSync(file, source.join(''));
    const options = ['--ignoreConfig', '--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--types', ''];
    const { status, stdout } = spawnSync('node_modules/.bin/tsc', [...options, file], { encoding: 'utf8' });
    return status === 0 ? [] : stdout.trim().split('\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
}
