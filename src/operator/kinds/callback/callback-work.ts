// One pass over a Callback, with the types of its desired state and its external resource.
import type { Pass, Work } from '../../pass/kind.ts';
import type { CallbackObject } from './callback-object.ts';
import type { DesiredCallback } from './desired-callback.ts';
import type { ExternalCallback } from './external-callback.ts';

export type CallbackPass = Pass<CallbackObject, DesiredCallback, ExternalCallback>;
export type CallbackWork = Work<CallbackObject, DesiredCallback, ExternalCallback>;
