/** What `unannounced_changes()` returns if every change was announced. */
const noneUnannounced = '0 0';

/** The query for numbers that show changes of which no notification arrives. A restore in place fires no trigger, but it changes the ids. */
export const selectNumbers = `SELECT envelope_sidecar.last_change() AS last, envelope_sidecar.unannounced_changes() AS unannounced,
  (SELECT string_agg(oid::text, ' ' ORDER BY oid) FROM pg_class
    WHERE relnamespace = 'envelope_sidecar'::regnamespace AND relkind = 'r') AS tables`;

export interface NumbersRow {
  /** The number of the last change. */
  readonly last: string;
  /** Identifies the changes that were made without a notification. */
  readonly unannounced: string;
  /** The ids of the tables. */
  readonly tables: string;
}

/** Compares each reading of the numbers with the one before. */
export class ChangeNumbers {
  #last = 0;
  #unannounced = noneUnannounced;
  #tables: string | undefined;

  /**
   * Returns how many changes were lost, because the number of the last one is lower than before, and whether any account may have changed,
   * because there are changes without a notification or other tables.
   */
  compare({ last, unannounced, tables }: NumbersRow): { readonly lost: number; readonly areUnannounced: boolean } {
    const areOthers = this.#tables !== undefined && tables !== this.#tables;
    const areUnannounced = areOthers || unannounced !== this.#unannounced;
    const lost = Math.max(0, this.#last - Number(last));
    this.#last = Number(last);
    this.#unannounced = unannounced;
    this.#tables = tables;
    return { lost, areUnannounced };
  }
}
