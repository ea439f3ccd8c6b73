import { rowsOf } from './report.ts';
import type { Result } from './rounds.ts';
import { line, svg, tenths, text } from './svg.ts';
import { count } from './table.ts';

const width = 820;
const barsFrom = 230;
const barsTo = 660;
const barHeight = 16;
const rowHeight = 22;
const headHeight = 30;

/** Requests per CPU-second as bars: median and range, with a separate scale for each workload. */
export function compareChart(results: readonly Result[], titles: Readonly<Record<string, string>>): string {
  const content: string[] = [];
  let y = 10;
  for (const result of results) {
    const rows = rowsOf(result);
    const most = Math.max(...rows.map((row) => row.requestsPerCpuSecond.max));
    const xOf = (value: number): number => barsFrom + (value / most) * (barsTo - barsFrom);
    content.push(text(10, y + 20, result.workload.title, 'class="head"'));
    y += headHeight;
    for (const { peer, requestsPerCpuSecond, ratio } of rows) {
      const { median, min, max } = requestsPerCpuSecond;
      const middle = y + barHeight / 2;
      const name = peer === 'sidecar' ? 'own' : 'peer';
      const barWidth = tenths(xOf(median) - barsFrom);
      content.push(text(barsFrom - 8, middle + 4, titles[peer] ?? peer, 'text-anchor="end"'));
      content.push(`<rect x="${barsFrom}" y="${y}" width="${barWidth}" height="${barHeight}" rx="2" class="${name}"/>`);
      content.push(line(xOf(min), middle, xOf(max), middle, 'range'));
      content.push(text(barsTo + 10, middle + 4, count(median)));
      if (ratio !== undefined)
        content.push(text(barsTo + 70, middle + 4, `sidecar ${ratio.median.toFixed(2)} ×`, 'class="small"'));
      y += rowHeight;
    }
    y += 8;
  }
  return svg(width, y + 4, 'Requests per CPU-second', content);
}
