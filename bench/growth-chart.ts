import type { Curve } from './growth.ts';
import { line, svg, tenths, text } from './svg.ts';

const panelWidth = 400;
const panelHeight = 210;
const left = 56;
const right = 380;
const top = 44;
const bottom = 160;

/** The curves as small panels, two per row, each starting at zero. */
export function growthChart(curves: readonly Curve[]): string {
  const content = curves.map((curve, i) => {
    const [x, y] = [(i % 2) * panelWidth, Math.floor(i / 2) * panelHeight];
    return `<g transform="translate(${x} ${y})">\n${panel(curve).join('\n')}\n</g>`;
  });
  return svg(panelWidth * 2, Math.ceil(curves.length / 2) * panelHeight, 'Growth', content);
}

function panel({ title, size, unit, points }: Curve): string[] {
  const most = roundUp(Math.max(...points.map(({ figure }) => figure.max)));
  const sizes = points.map(({ at }) => at);
  const scale = scaleOf(Math.min(...sizes), Math.max(...sizes));
  const yOf = (value: number): number => bottom - (value / most) * (bottom - top);
  const content = [
    text(left, 20, title, 'class="head"'),
    text(left, 35, `${unit} by ${size}`, 'class="small"'),
    line(left, bottom, right, bottom, 'axis'),
    line(left, top, right, top, 'axis'),
    text(left - 6, bottom + 4, '0', 'class="small" text-anchor="end"'),
    text(left - 6, top + 4, compact(most), 'class="small" text-anchor="end"'),
    `<polyline class="line" points="${points.map(({ at, figure }) => `${tenths(scale(at))},${tenths(yOf(figure.median))}`).join(' ')}"/>`,
  ];
  for (const { at, figure } of points) {
    const x = scale(at);
    const y = yOf(figure.median);
    content.push(line(x, yOf(figure.min), x, yOf(figure.max), 'range'));
    content.push(`<circle cx="${tenths(x)}" cy="${tenths(y)}" r="3" class="own"/>`);
    content.push(text(x, y - 8, compact(figure.median), 'class="small" text-anchor="middle"'));
    content.push(text(x, bottom + 16, compact(at), 'class="small" text-anchor="middle"'));
  }
  return content;
}

/** Logarithmic, but linear near zero. */
function scaleOf(least: number, most: number): (size: number) => number {
  const of = (share: number): number => left + 16 + share * (right - left - 32);
  if (least === 0) return (size) => of(size / most);
  return (size) => of(Math.log(size / least) / Math.log(most / least));
}

/** The next higher of 1, 2 and 5 times a power of ten. */
function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5, 10].find((step) => step * power >= value) ?? 10) * power;
}

function compact(value: number): string {
  if (value >= 1_000_000) return `${tenths(value / 1_000_000)}M`;
  if (value >= 1_000) return `${tenths(value / 1_000)}k`;
  return value >= 10 ? String(Math.round(value)) : tenths(value);
}
