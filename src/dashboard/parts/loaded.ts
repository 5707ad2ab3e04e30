// What a page has read, kept while it is read again.
import { type ReadonlySignal, signal, useSignalEffect } from '@preact/signals';
import { useMemo, useRef } from 'preact/hooks';
import { Fault } from '../api/fault.ts';
import { endSession } from '../session.ts';

export interface Loaded<Value> {
  /** Undefined before the first answer. */
  value?: Value;
  /** Why the newest read failed. */
  fault?: Fault;
  /** Since when the API has not answered. */
  awaySince?: Date;
}

export interface LoadOptions {
  /** Reads again this long after each answer, while the page is visible. */
  everyMs?: number;
}

/**
 * Reads at once, when a signal that `load` reads changes, and as the options say. An answer that comes after a newer read has
 * begun is dropped.
 */
export function useLoaded<Value>(
  load: (signal: AbortSignal) => Promise<Value> | undefined,
  { everyMs }: LoadOptions = {},
): { loaded: ReadonlySignal<Loaded<Value>>; reload: () => void } {
  const loaded = useMemo(() => signal<Loaded<Value>>({}), []);
  const turn = useMemo(() => signal(0), []);
  const latest = useRef(load);
  latest.current = load;
  useSignalEffect(() => {
    void turn.value;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const reading = latest.current(abort.signal);
    if (!reading) return;
    const again = (notBeforeMs = 0) => {
      if (everyMs === undefined || abort.signal.aborted) return;
      timer = setTimeout(
        () => {
          if (document.visibilityState === 'visible') turn.value += 1;
          else again();
        },
        Math.max(everyMs, notBeforeMs),
      );
    };
    reading.then(
      (value) => {
        if (abort.signal.aborted) return;
        loaded.value = { value };
        again();
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        loaded.value = failed(loaded.value, error);
        again(loaded.value.fault?.retryAfterMs);
      },
    );
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  });
  return {
    loaded,
    reload: () => {
      turn.value += 1;
    },
  };
}

function failed<Value>(before: Loaded<Value>, error: unknown): Loaded<Value> {
  const fault = error instanceof Fault ? error : new Fault(0, { detail: String(error) });
  if (fault.isSignedOut) endSession();
  return { ...before, fault, awaySince: fault.isAway ? (before.awaySince ?? new Date()) : undefined };
}
