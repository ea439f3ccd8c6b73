/** Thrown for an invalid value: the message says what is expected, and never quotes the value. */
export class WrongValue extends Error {}
