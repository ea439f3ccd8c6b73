/** Loopback addresses, each used once, by which the upstream identifies a client. */
export class Addresses {
  #given = 0;

  next(): string {
    this.#given += 1;
    const number = this.#given;
    return `127.${1 + ((number >> 16) & 0x7f)}.${(number >> 8) & 0xff}.${number & 0xff}`;
  }
}
