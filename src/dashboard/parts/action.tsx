// A change that a button makes: once at a time, with its fault beside the button.
import { useSignal } from '@preact/signals';
import { Fault } from '../api/fault.ts';

export interface Action<Arguments extends unknown[]> {
  run: (...given: Arguments) => Promise<void>;
  isRunning: boolean;
  fault: Fault | undefined;
}

export function useAction<Arguments extends unknown[]>(
  work: (...given: Arguments) => Promise<unknown>,
): Action<Arguments> {
  const isRunning = useSignal(false);
  const fault = useSignal<Fault | undefined>(undefined);
  const run = async (...given: Arguments) => {
    if (isRunning.value) return;
    isRunning.value = true;
    fault.value = undefined;
    try {
      await work(...given);
    } catch (error) {
      fault.value = error instanceof Fault ? error : new Fault(0, { detail: String(error) });
    } finally {
      isRunning.value = false;
    }
  };
  return { run, isRunning: isRunning.value, fault: fault.value };
}
