/** The environment without the variables that vitest sets for its own tests: one of them may be what runs this. */
export function ownEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(?:VITEST|VITE_|TEST$|NODE_ENV$)/.test(name)),
  );
}
