// Times for people: relative, with the absolute one on focus and hover, in UTC as everywhere else in the product.
import { signal } from '@preact/signals';

/** The present time, to the second. */
export const now = signal(Date.now());

export function startClock(): void {
  setInterval(() => {
    if (document.visibilityState === 'visible') now.value = Date.now();
  }, 1_000);
}

const STEPS: readonly [seconds: number, unit: Intl.RelativeTimeFormatUnit][] = [
  [86_400, 'day'],
  [3_600, 'hour'],
  [60, 'minute'],
  [1, 'second'],
];
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'always', style: 'short' });

/** "5 min. ago", "in 2 hr." */
export function relative(atMs: number, nowMs: number): string {
  const seconds = Math.round((atMs - nowMs) / 1_000);
  const [size, unit] = STEPS.find(([step]) => Math.abs(seconds) >= step) ?? [1, 'second' as const];
  return RELATIVE.format(Math.trunc(seconds / size), unit);
}

/** "2026-11-28 11:04:52 UTC" */
export function absolute(at: string): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

/** The absolute time is for screen readers, and is seen where the pointer or the focus is in its row. */
export function Time({ at }: { at: string }) {
  return (
    <time dateTime={at}>
      {relative(Date.parse(at), now.value)} <span class="absolute">{absolute(at)}</span>
    </time>
  );
}

/** "1 h 5 min" */
export function duration(seconds: number): string {
  if (seconds < 60) return `${Math.round(seconds * 10) / 10} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
}
