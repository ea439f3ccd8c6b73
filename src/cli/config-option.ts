import { Option } from 'commander';
import { defaultConfig, type CliIo } from './io.ts';

/** `--config`, as every command has it that works on a configuration. */
export function configOption({ env }: Pick<CliIo, 'env'>): Option {
  return new Option('--config <file>', 'path of the configuration file').default(defaultConfig(env));
}
