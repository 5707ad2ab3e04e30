// Numbers in the sentences of Rules. Pure.

/** `10,000`. */
export function formatCount(count: number): string {
  return count.toLocaleString('en-US');
}

/** `1 Monitor`, `10,000 Monitors`. */
export function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`;
}
