// Reading request headers that more than one plug-in needs.

/** Node reads header bytes as Latin-1; callers write UTF-8. Bytes that are not UTF-8 stay as they are. */
export function decodeHeader(value: string): string {
  const text = Buffer.from(value, 'latin1').toString('utf8');
  return text.includes('\ufffd') ? value : text;
}

/** Whether an `Accept` header admits a media type (RFC 9110 12.5.1). Without a header everything is acceptable. */
export function accepts(header: string | undefined, type: string): boolean {
  if (header === undefined || header.trim() === '') return true;
  const [main] = type.split('/');
  let best = { specificity: -1, quality: 0 };
  for (const range of header.split(',')) {
    const [name = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const specificity = [`*/*`, `${main}/*`, type].indexOf(name);
    if (specificity > best.specificity) best = { specificity, quality: qualityOf(parameters) };
  }
  return best.quality > 0;
}

function qualityOf(parameters: readonly string[]): number {
  const text = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2);
  const quality = text === undefined ? 1 : Number(text);
  return Number.isFinite(quality) ? quality : 0;
}
