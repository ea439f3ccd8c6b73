import { useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { Traffic } from '../api.ts';
import { texts } from '../texts.ts';

type Slot = Traffic['slots'][number];

const say = texts.overview;

/** The outcomes, in order from the bottom of a bar to its top. */
const outcomes = ['served', 'refused', 'failed', 'left'] as const;

/** Positions and heights of the bars, of the strip below them and of the whole chart, in pixels. */
const barsHeight = 150;
const stripTop = 190;
const stripHeight = 44;
const height = 240;
/** The width of the scales, in pixels. */
const left = 52;

/** Shows requests by outcome as stacked bars, their durations in a separate strip below, and the values of the slot under the pointer. */
export function Chart({ slots }: Pick<Traffic, 'slots'>) {
  const place = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  const pointed = useSignal<number | undefined>(undefined);
  // The slot chosen by keyboard. It is kept apart from the pointer's slot, because a pointer that does not move can leave the chart when
  // the page above the chart grows.
  const chosen = useSignal<number | undefined>(undefined);
  useEffect(() => {
    const element = place.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => (width.value = element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const step = Math.max(0, width.value - left) / slots.length;
  const shown = chosen.value ?? pointed.value;
  const slot = shown === undefined ? undefined : slots[shown];
  const move = (by: number): void => {
    chosen.value = Math.min(slots.length - 1, Math.max(0, (shown ?? slots.length) + by));
  };
  return (
    <figure>
      <Legend slots={slots} />
      <div
        ref={place}
        class="chart"
        role="img"
        tabIndex={0}
        aria-label={say.chart}
        onPointerMove={(event) => {
          const at = event.clientX - event.currentTarget.getBoundingClientRect().left - left;
          pointed.value = at < 0 || step === 0 ? undefined : Math.min(slots.length - 1, Math.floor(at / step));
        }}
        onPointerLeave={() => (pointed.value = undefined)}
        onPointerDown={() => (chosen.value = undefined)}
        onBlur={() => (chosen.value = undefined)}
        onKeyDown={({ key }) => {
          if (key === 'ArrowLeft') move(-1);
          if (key === 'ArrowRight') move(1);
        }}
      >
        {width.value > 0 && <Drawing slots={slots} step={step} width={width.value} shown={shown} />}
        {slot !== undefined && shown !== undefined && (
          <Values slot={slot} x={left + shown * step} isRight={shown * 2 > slots.length} />
        )}
      </div>
    </figure>
  );
}

function Legend({ slots }: Pick<Traffic, 'slots'>) {
  return (
    <figcaption class="row legend">
      {outcomes.map((outcome) => {
        const sum = slots.reduce((all, slot) => all + slot[outcome], 0);
        if (outcome === 'left' && sum === 0) return null;
        return (
          <span key={outcome} class={outcome}>
            {say.outcomes[outcome]} <strong>{sum.toLocaleString('en')}</strong>
          </span>
        );
      })}
      <span class="p50">p50</span>
      <span class="p99">p99</span>
    </figcaption>
  );
}

interface DrawingProps {
  readonly slots: readonly Slot[];
  /** The width of a bar with its gap, in pixels. */
  readonly step: number;
  readonly width: number;
  readonly shown: number | undefined;
}

function Drawing({ slots, step, width, shown }: DrawingProps) {
  const most = niceUp(Math.max(1, ...slots.map(sumSlot)));
  const slowest = niceUp(Math.max(1, ...slots.slice(0, -1).map(({ p99_ms: p99 }) => p99 ?? 0)));
  const labels = [0.25, 0.5, 0.75].map((share) => Math.round(slots.length * share));
  return (
    <svg width={width} height={height} aria-hidden="true">
      {[most, most / 2].map((value) => (
        <Line key={value} y={barsHeight * (1 - value / most) + 8} width={width} label={value.toLocaleString('en')} />
      ))}
      <Line y={barsHeight + 8} width={width} label="0" />
      {slots.map((slot, i) => (
        <Bar key={slot.time} slot={slot} x={left + i * step} step={step} most={most} isOpen={i === slots.length - 1} />
      ))}
      {labels.map((i) => (
        <text key={i} x={left + i * step} y={barsHeight + 26}>
          {formatTime(slots[i])}
        </text>
      ))}
      <Line y={stripTop} width={width} label={slowest < 1_000 ? `${slowest} ms` : `${slowest / 1_000} s`} />
      <Line y={stripTop + stripHeight} width={width} label="0" />
      {(['p99', 'p50'] as const).map((percentile) => (
        <path key={percentile} class={percentile} d={drawLine(slots.slice(0, -1), percentile, step, slowest)} />
      ))}
      {shown !== undefined && <rect class="pointer" x={left + shown * step} y={0} width={step} height={height} />}
    </svg>
  );
}

function Line({ y, width, label }: { y: number; width: number; label: string }) {
  return (
    <>
      <line x1={left} x2={width} y1={y} y2={y} />
      <text x={left - 6} y={y + 4} class="scale">
        {label}
      </text>
    </>
  );
}

/** @param props.isOpen whether the slot is still filling, so that it cannot be compared with the others yet */
function Bar({ slot, x, step, most, isOpen }: { slot: Slot; x: number; step: number; most: number; isOpen: boolean }) {
  let y = barsHeight + 8;
  return (
    <g class={isOpen ? 'open' : undefined}>
      {outcomes.map((outcome) => {
        const size = (slot[outcome] / most) * barsHeight;
        y -= size;
        return (
          size > 0 && <rect key={outcome} class={outcome} x={x} y={y} width={Math.max(1, step - 1)} height={size} />
        );
      })}
    </g>
  );
}

/**
 * A path with gaps where no request was answered. Callers leave out the open slot, because its incomplete figures would look like a drop.
 */
function drawLine(slots: readonly Slot[], percentile: 'p50' | 'p99', step: number, most: number): string {
  let pen = 'M';
  return slots
    .map((slot, i) => {
      const value = slot[`${percentile}_ms`];
      if (value === null) {
        pen = 'M';
        return '';
      }
      const [x, y] = [left + i * step, stripTop + stripHeight * (1 - value / most)];
      const drawn = `${pen}${x.toFixed(1)} ${y.toFixed(1)}h${step.toFixed(1)}`;
      pen = 'L';
      return drawn;
    })
    .join('');
}

function Values({ slot, x, isRight }: { slot: Slot; x: number; isRight: boolean }) {
  return (
    <div class={`values ${isRight ? 'before' : ''}`} style={{ left: `${x}px` }} role="status">
      <strong>{formatTime(slot)} UTC</strong>
      {outcomes.map((outcome) => (
        <span key={outcome}>
          {say.outcomes[outcome]} {slot[outcome].toLocaleString('en')}
        </span>
      ))}
      {slot.p50_ms !== null && <span>p50 {slot.p50_ms} ms</span>}
      {slot.p99_ms !== null && <span>p99 {slot.p99_ms} ms</span>}
    </div>
  );
}

function sumSlot(slot: Slot): number {
  return outcomes.reduce((sum, outcome) => sum + slot[outcome], 0);
}

/** Formats the start of a slot in UTC, as in logs. */
function formatTime(slot: Slot | undefined): string {
  return slot?.time.slice(11, 16) ?? '';
}

/** Rounds a value up to a number that is easy to read. */
function niceUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 3, 4, 6, 8].find((factor) => factor * power >= value) ?? 10) * power;
}
