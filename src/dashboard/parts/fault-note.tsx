// A fault in the words of the API, with what can be done.
import type { Fault } from '../api/fault.ts';
import { Time } from './times.tsx';

interface FaultNoteProps {
  fault: Fault;
  since?: Date | undefined;
  retry?: () => void;
}

export function FaultNote({ fault, since, retry }: FaultNoteProps) {
  return (
    <div class="fault">
      <p role="alert">{fault.message}</p>
      {since && (
        <p>
          Since <Time at={since.toISOString()} />
        </p>
      )}
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}
