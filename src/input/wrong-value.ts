/** Thrown while a value is read: the message says what would be right, and never repeats the value. */
export class WrongValue extends Error {}
