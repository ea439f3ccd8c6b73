import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { useEffect, useRef } from 'preact/hooks';
import { texts } from '../texts.ts';

interface Series {
  readonly title: string;
  /** Epoch seconds, a minute apart. */
  readonly times: readonly number[];
  readonly values: readonly number[];
}

/** A count by minute, also described in words. */
export function Chart({ title, times, values }: Series) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | undefined>(undefined);
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const drawn = new uPlot(optionsFor(element), [[], []], element);
    chart.current = drawn;
    const observer = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      drawn.destroy();
    };
  }, []);
  useEffect(() => {
    chart.current?.setData([[...times], [...values]]);
  }, [times, values]);
  const sum = values.reduce((all, value) => all + value, 0);
  return (
    <figure>
      <div ref={place} role="img" aria-label={title} />
      <figcaption class="hint">{texts.overview.chart(sum, Math.max(0, ...values))}</figcaption>
    </figure>
  );
}

const height = 120;

function rfc3339(seconds: number): string {
  return new Date(seconds * 1_000).toISOString();
}

function optionsFor(element: HTMLElement): uPlot.Options {
  const style = getComputedStyle(element);
  const accent = style.getPropertyValue('color');
  const axis = { stroke: accent, grid: { show: false }, ticks: { show: false }, font: '11px sans-serif' };
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_chart, _least, most) => [0, Math.max(most, 1)] } },
    // UTC, as logs have it.
    axes: [
      { ...axis, values: (_chart, times) => times.map((time) => rfc3339(time).slice(11, 16)) },
      { ...axis, size: 40 },
    ],
    series: [{}, { stroke: accent, width: 1.5, fill: `color-mix(in srgb, ${accent} 15%, transparent)` }],
  };
}
