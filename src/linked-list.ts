/** The links of a list member. Both are undefined while the member is not in a list. */
export interface Linked<T> {
  previous: T | undefined;
  next: T | undefined;
}

/**
 * A list in insertion order. Its members hold the links. It replaces a Set, because when V8 rehashes a Set in the old generation, V8
 * allocates the new table there too. The old table is dead, but still points to the new one, so every member is promoted to the old
 * generation. Links are cleared on removal, because the links of a dead member would have the same effect.
 */
export class LinkedList<T extends Linked<T>> {
  first: T | undefined;
  last: T | undefined;
  size = 0;

  /** Appends a member, which must not be in a list. */
  add(member: T): void {
    member.previous = this.last;
    if (this.last === undefined) this.first = member;
    else this.last.next = member;
    this.last = member;
    this.size += 1;
  }

  /** Inserts a member, which must not be in a list, before all others. */
  addFirst(member: T): void {
    member.next = this.first;
    if (this.first === undefined) this.last = member;
    else this.first.previous = member;
    this.first = member;
    this.size += 1;
  }

  /** Removes a member. Has no effect if the member is not in this list. */
  remove(member: T): void {
    if (member.previous !== undefined) member.previous.next = member.next;
    else if (this.first === member) this.first = member.next;
    else return;
    if (member.next === undefined) this.last = member.previous;
    else member.next.previous = member.previous;
    member.previous = undefined;
    member.next = undefined;
    this.size -= 1;
  }

  /** Iterates from first to last. The current member may be removed during the iteration. */
  *[Symbol.iterator](): Iterator<T> {
    let member = this.first;
    while (member !== undefined) {
      const { next } = member;
      yield member;
      member = next;
    }
  }
}
