// Reads the duration of `--for` and `--timeout`: `90m`, `2h`, `1h30m`, `1d`. Pure.
import { Refusal } from './refusal.ts';

const SECONDS: Readonly<Record<string, number>> = { w: 604_800, d: 86_400, h: 3_600, m: 60, s: 1 };

/** Throws a Refusal for what is no duration above 0. */
export function readDurationSeconds(option: string, text: string): number {
  const parts = [...text.matchAll(/(\d{1,9})([wdhms])/g)];
  const isWhole = parts.map(([part]) => part).join('') === text;
  const seconds = parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (SECONDS[unit] ?? 0), 0);
  if (!isWhole || seconds === 0) {
    throw new Refusal(`--${option} ${text} is no duration: state one such as 30m, 2h, 1h30m or 1d.`);
  }
  return seconds;
}
