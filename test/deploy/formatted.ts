import { format, resolveConfig } from 'prettier';

/** Formats text as `prettier --write` would format that file, so that generated files pass the format check. */
export async function formatted(path: string, text: string): Promise<string> {
  return format(text, { ...(await resolveConfig(path)), filepath: path });
}
