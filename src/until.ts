/** Resolves when the condition holds, which is checked every 20 milliseconds, or after `milliseconds`. */
export async function until(holds: () => boolean | Promise<boolean>, milliseconds: number): Promise<void> {
  const end = performance.now() + milliseconds;
  while (!(await holds()) && performance.now() < end) await new Promise((resolve) => void setTimeout(resolve, 20));
}
