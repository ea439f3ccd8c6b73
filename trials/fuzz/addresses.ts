/** Addresses of loopback, each given once: whoever connects from one of its own is known by it on the other side. */
export class Addresses {
  #given = 0;

  next(): string {
    this.#given += 1;
    const number = this.#given;
    return `127.${1 + ((number >> 16) & 0x7f)}.${(number >> 8) & 0xff}.${number & 0xff}`;
  }
}
