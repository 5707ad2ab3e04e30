// The health of a monitor, as a word and a shape: colour alone tells nothing.
import type { Monitor } from '../../contract/resources/monitor.ts';

type Health = Monitor['status']['health'];

const WORDS: Record<Health, string> = {
  up: 'Up',
  late: 'Late',
  down: 'Down',
  waiting: 'Waiting',
  recovering: 'Recovering',
  maintenance: 'Maintenance',
  paused: 'Paused',
  archived: 'Archived',
};

const SHAPES: Record<Health, string> = {
  up: 'M3 8.5l3.5 3.5L13 4.5',
  late: 'M8 3v5l3.5 2M8 1.5a6.5 6.5 0 1 0 .01 0',
  down: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
  waiting: 'M3 8h.01M8 8h.01M13 8h.01',
  recovering: 'M2.5 11l4-4 3 3 4-5M10 5h3.5v3.5',
  maintenance: 'M3 13l6-6M9 7a3 3 0 0 1 4-4l-2 2 .5 1.5L13 7l2-2a3 3 0 0 1-4 4z',
  paused: 'M5.5 3v10M10.5 3v10',
  archived: 'M2.5 4.5h11M3.5 4.5v8.5h9V4.5M6.5 8h3',
};

export function HealthWord({ health }: { health: Health }) {
  return (
    <span class={`health ${health}`}>
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <path d={SHAPES[health]} />
      </svg>
      {WORDS[health]}
    </span>
  );
}
