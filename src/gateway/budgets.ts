import type { Limits } from '../config/config.ts';

/** The bytes of bodies that may be held in memory at once, over all requests. */
export class BufferBudget {
  #size: number;
  #free: number;

  constructor(bytes: number) {
    this.#size = bytes;
    this.#free = bytes;
  }

  /** Sets how many bytes there are in all; what is held stays held. */
  resize(bytes: number): void {
    this.#free += bytes - this.#size;
    this.#size = bytes;
  }

  /** Takes `bytes` if they are left. What was taken must be given back. */
  take(bytes: number): boolean {
    if (bytes > this.#free) return false;
    this.#free -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#free += bytes;
  }
}

/** The budget of requests whose key is known, and the small one of the rest, who could otherwise use up the first. */
export interface BufferBudgets {
  readonly identified: BufferBudget;
  readonly keyless: BufferBudget;
}

export function bufferBudgets(limits: Limits): BufferBudgets {
  return { identified: new BufferBudget(limits.buffered), keyless: new BufferBudget(keylessShare(limits)) };
}

export function resizeBudgets({ identified, keyless }: BufferBudgets, limits: Limits): void {
  identified.resize(limits.buffered);
  keyless.resize(keylessShare(limits));
}

/** An eighth, but room for one body at least. */
function keylessShare({ buffered, requestBody }: Limits): number {
  return Math.max(requestBody, Math.floor(buffered / 8));
}
