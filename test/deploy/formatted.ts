import { format, resolveConfig } from 'prettier';

/** Text as `prettier --write` would leave it in that file, so that generated files pass the check of the format. */
export async function formatted(path: string, text: string): Promise<string> {
  return format(text, { ...(await resolveConfig(path)), filepath: path });
}
