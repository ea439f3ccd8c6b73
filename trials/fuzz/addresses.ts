/** Loopback addresses, each used once, so that the other side can identify a client by it. */
export class Addresses {
  #given = 0;

  next(): string {
    this.#given += 1;
    const number = this.#given;
    return `127.${1 + ((number >> 16) & 0x7f)}.${(number >> 8) & 0xff}.${number & 0xff}`;
  }
}
