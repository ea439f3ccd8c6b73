import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import type { Attribution } from './attribution.ts';
import { compareChart } from './compare-chart.ts';
import { growthChart } from './growth-chart.ts';
import type { Curve } from './growth.ts';
import type { Profile } from './profile.ts';
import type { Report } from './report.ts';
import type { Result } from './rounds.ts';
import { project } from './sidecar.ts';
import {
  addedLatencyTable,
  asMarkdown,
  differenceTable,
  footprintTable,
  partsTable,
  profileTable,
  ratioTable,
  significant,
  workloadTable,
} from './table.ts';

const docs = join(project, 'docs');

/** Writes the results of a run between the markers of docs/performance.md, and its charts beside the page. */
export async function writeDocs(report: Report): Promise<void> {
  const file = join(docs, 'performance.md');
  let page = readFileSync(file, 'utf8');
  if (report.compare !== undefined) {
    page = replaced(page, 'compare', compareSection(report, report.compare));
    writeFileSync(join(docs, 'performance.svg'), compareChart(report.compare.results, report.compare.titles));
  }
  if (report.growth !== undefined) {
    page = replaced(page, 'growth', growthSection(report, report.growth));
    writeFileSync(join(docs, 'growth.svg'), growthChart(report.growth));
  }
  if (report.latency !== undefined) page = replaced(page, 'latency', latencySection(report, report.latency));
  for (const [name, section] of [
    ['footprint', report.footprint && footprintSection(report, report.footprint)],
    ['tracing', report.tracing && tracingSection(report, report.tracing)],
    ['attribution', report.attribution && attributionSection(report, report.attribution)],
  ] as const) {
    if (section !== undefined) page = replaced(page, name, section);
  }
  if (report.profile !== undefined) page = replaced(page, 'profile', profileSection(report, report.profile));
  writeFileSync(file, await format(page, { ...(await resolveConfig(file)), filepath: file }));
}

/** @throws if the page has no such markers */
function replaced(page: string, name: string, content: string): string {
  const [begin, end] = [`<!-- begin ${name} -->`, `<!-- end ${name} -->`];
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from === -1 || to === -1) throw new Error(`docs/performance.md has no markers for "${name}"`);
  return `${page.slice(0, from + begin.length)}\n\n${content}\n\n${page.slice(to)}`;
}

function compareSection(report: Report, { pace, titles, results }: NonNullable<Report['compare']>): string {
  return [
    `${circumstances(report)} ${pace.rounds} rounds of ${pace.seconds} s for each peer and workload.`,
    '![Requests per CPU-second](performance.svg)',
    'Sidecar : peer, median and range of the rounds:',
    asMarkdown(ratioTable(results, titles)),
    ...results.flatMap((result) => [`### ${result.workload.title}`, asMarkdown(workloadTable(result, titles))]),
  ].join('\n\n');
}

function growthSection(report: Report, curves: readonly Curve[]): string {
  const list = curves.map(({ title, size, unit, points }) => {
    const steps = points.map(({ at, figure }) => `${at.toLocaleString('en-US')}: ${significant(figure.median)}`);
    return `- ${title}, ${unit} by ${size}: ${steps.join(' · ')}`;
  });
  return [circumstances(report), '![Growth](growth.svg)', list.join('\n')].join('\n\n');
}

function latencySection(report: Report, { rounds, titles, added }: NonNullable<Report['latency']>): string {
  return [
    `${circumstances(report)} Median and range of ${rounds} rounds.`,
    asMarkdown(addedLatencyTable(added, titles)),
  ].join('\n\n');
}

function profileSection(report: Report, profile: Profile): string {
  return [`${circumstances(report)} ${profile.workload.title}.`, asMarkdown(profileTable(profile))].join('\n\n');
}

function footprintSection(report: Report, { rounds, figures }: NonNullable<Report['footprint']>): string {
  const times = rounds === 1 ? 'One run.' : `Median and range of ${rounds} rounds, each in fresh processes.`;
  return [`${circumstances(report)} ${times}`, asMarkdown(footprintTable(figures))].join('\n\n');
}

function tracingSection(report: Report, { result, titles }: NonNullable<Report['tracing']>): string {
  return [roundsOf(report, result), asMarkdown(differenceTable(result, titles))].join('\n\n');
}

function attributionSection(report: Report, attribution: Attribution): string {
  return [roundsOf(report, attribution.result), asMarkdown(partsTable(attribution))].join('\n\n');
}

function roundsOf(report: Report, { workload, rounds }: Result): string {
  return `${circumstances(report)} ${workload.title}, median and range of ${rounds.length} rounds.`;
}

function circumstances({ date, machine }: Report): string {
  const versions = Object.entries(machine.versions).map(([name, version]) => `${name} ${version}`);
  return `${date}, ${machine.cpu}, ${machine.cores} cores, ${machine.memory}, ${machine.kernel}, ${versions.join(', ')}.`;
}
