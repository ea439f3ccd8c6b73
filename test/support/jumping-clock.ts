const day = 86_400_000;

/**
 * Node options that make the wall clock of a process jump with each SIGUSR2: first by the first of these numbers of days, then by the
 * second, and so on.
 */
export function jumpingClock(...days: readonly number[]): readonly string[] {
  const module = `
    const Real = Date;
    const jumps = ${JSON.stringify(days)};
    let ahead = 0;
    process.on('SIGUSR2', () => (ahead += Math.round((jumps.shift() ?? 0) * ${day})));
    globalThis.Date = class extends Real {
      constructor(...given) {
        super(...(given.length === 0 ? [Real.now() + ahead] : given));
      }
      static now() {
        return Real.now() + ahead;
      }
    };`;
  return ['--import', `data:text/javascript,${encodeURIComponent(module)}`];
}
