/** An SVG document that is readable on light and on dark pages. */
export function svg(width: number, height: number, title: string, content: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    '<style>',
    'text { font: 12px system-ui, sans-serif; fill: #24292f }',
    '.head { font-weight: 600; font-size: 13px }',
    '.small { font-size: 11px; fill: #6e7781 }',
    '.own { fill: #0969da } .peer { fill: #9fb3c8 }',
    '.line { stroke: #0969da; stroke-width: 2; fill: none }',
    '.range { stroke: #24292f; stroke-width: 1 } .axis { stroke: #d0d7de; stroke-width: 1 }',
    '@media (prefers-color-scheme: dark) {',
    'text { fill: #e6edf3 } .small { fill: #8b949e }',
    '.own { fill: #4493f8 } .peer { fill: #56687a }',
    '.line { stroke: #4493f8 } .range { stroke: #e6edf3 } .axis { stroke: #3d444d }',
    '}',
    '</style>',
    ...content,
    '</svg>',
    '',
  ].join('\n');
}

/** @param more classes and attributes */
export function text(x: number, y: number, content: string, more = ''): string {
  return `<text x="${tenths(x)}" y="${tenths(y)}" ${more}>${escaped(content)}</text>`;
}

export function line(x1: number, y1: number, x2: number, y2: number, name: string): string {
  return `<line x1="${tenths(x1)}" y1="${tenths(y1)}" x2="${tenths(x2)}" y2="${tenths(y2)}" class="${name}"/>`;
}

export function tenths(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function escaped(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
