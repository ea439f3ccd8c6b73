const ascii = /^[\x20-\x7E]*$/;
/** Characters that take two cells: ideographs, kana, Hangul, full-width forms and emoji. Rare ones that no name has are left out. */
const wide =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\u3000-\u303E\uFF01-\uFF60]/u;
/** Kana and Hangul in their narrow forms. */
const narrow = /[\uFF61-\uFFDC]/;
/** Letters with the accents that combine with them. */
const letters = new Intl.Segmenter('en');

/** How many cells of a terminal a text takes. */
export function widthOf(text: string): number {
  if (ascii.test(text)) return text.length;
  let width = 0;
  for (const { segment } of letters.segment(text)) width += cellsOf(segment);
  return width;
}

function cellsOf(letter: string): number {
  return wide.test(letter) && !narrow.test(letter) ? 2 : 1;
}

/** The longest beginning of a text that fits `width` cells. */
export function beginningOf(text: string, width: number): string {
  if (ascii.test(text)) return text.slice(0, width);
  let [begin, taken] = ['', 0];
  for (const { segment } of letters.segment(text)) {
    taken += cellsOf(segment);
    if (taken > width) break;
    begin += segment;
  }
  return begin;
}

/**
 * Lines of at most `width` cells, broken between words. A longer word stays whole. Spaces other than those at a break
 * are kept.
 */
export function folded(text: string, width: number): string[] {
  const lines: string[] = [];
  const [first = '', ...words] = text.split(' ');
  let line = first;
  for (const word of words) {
    if (widthOf(`${line} ${word}`) <= width) {
      line += ` ${word}`;
    } else {
      lines.push(line);
      line = word;
    }
  }
  return [...lines, line];
}

/** A text in pieces of at most `width` cells. */
export function pieces(text: string, width: number): string[] {
  if (widthOf(text) <= width) return [text];
  const begin = beginningOf(text, width);
  return [begin, ...pieces(text.slice(begin.length), width)];
}
