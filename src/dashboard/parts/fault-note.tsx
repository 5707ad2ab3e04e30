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
    <div class="fault" role="alert">
      <p>
        {fault.message}
        {since && (
          <>
            {' '}
            Since <Time at={since.toISOString()} />.
          </>
        )}
      </p>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}
