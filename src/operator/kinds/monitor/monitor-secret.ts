// The Secret of a Monitor: its publish address, and the signing secret of an inline binding, which the API shows once.
import type { BindingDirectory } from '../../known/binding-directory.ts';
import type { ObjectMemory } from '../../known/object-memory.ts';
import { type OperatorContext, recordEvent } from '../../operator-context.ts';
import {
  findFormerSecret,
  isMarked,
  type OwnedSecret,
  readOwnedSecret,
  writeOwnedSecret,
} from '../../pass/owned-secret.ts';
import { contentHash, parseSpecHash, secretHash } from '../../resources/content-hash.ts';
import type { MonitorHandle } from './monitor-handle.ts';
import { MONITORS, type MonitorObject } from './monitor-object.ts';
import type { WantedMonitor } from './wanted-monitor.ts';

const KEYS = ['url', 'signingSecret'] as const;
/** The endpoint that `signingSecret` was issued for. */
const ENDPOINT_ANNOTATION = 'beatkeeper.dev/inline-endpoint-id';

/** The part of a Secret that is ours. */
function ours(data: Record<string, string>): Record<string, string> {
  const kept = KEYS.flatMap((key) => (data[key] === undefined ? [] : [[key, data[key]]]));
  return Object.fromEntries(kept);
}

/** True if the Secret is there and holds what it was given. Throws Blocked, KubeError. */
export async function isMonitorSecretIntact(
  { kube }: OperatorContext,
  object: MonitorObject,
  name: string,
): Promise<boolean> {
  const known = await readOwnedSecret(kube, { resource: MONITORS, object }, name);
  return (
    known !== undefined && secretHash(ours(known.data)) === parseSpecHash(object.status?.specHash).secret
  );
}

export interface MonitorSecretFacts {
  object: MonitorObject;
  wanted: WantedMonitor;
  handle: MonitorHandle;
  memory: ObjectMemory;
  /** The API has the configuration that we knew, under the next version: somebody rotated what can't be seen. */
  isRotatedElsewhere: boolean;
}

/** Makes the Secret right and returns its hash. Throws Blocked `SecretConflict`, ApiProblem, KubeError. */
export async function ensureMonitorSecret(
  context: OperatorContext,
  facts: MonitorSecretFacts,
): Promise<string> {
  const { object, wanted, handle } = facts;
  const owner = { resource: MONITORS, object };
  const known = await readOwnedSecret(context.kube, owner, wanted.secretName);
  // One that was given another name: what it holds is still right.
  const names = { former: object.status?.publishSecretRef?.name, current: wanted.secretName };
  const source = known ?? (await findFormerSecret(context.kube, owner, names));
  const inline = await inlineSecret(context.bindings, facts, source);
  const data: Record<string, string> = {
    url: handle.record.publishUrl ?? '',
    ...(inline === undefined ? {} : { signingSecret: inline.secret }),
  };
  const annotations = { [ENDPOINT_ANNOTATION]: inline?.endpointId };
  const isRight = known !== undefined && secretHash(ours(known.data)) === secretHash(data);
  if (!isRight || !isMarked(known, owner, annotations)) {
    await writeOwnedSecret(context.kube, owner, known, {
      name: wanted.secretName,
      data,
      keys: KEYS,
      annotations,
    });
  }
  if (!isRight) recordSecretChange(context, object, { name: wanted.secretName, known, data });
  facts.memory.secretCheckedAtMs = performance.now();
  return secretHash(data);
}

/** The signing secret that belongs into the Secret; undefined where the binding is not inline. */
async function inlineSecret(
  bindings: BindingDirectory,
  { object, wanted, handle, isRotatedElsewhere }: MonitorSecretFacts,
  known: OwnedSecret | undefined,
): Promise<{ secret: string; endpointId: string | undefined } | undefined> {
  const { callback, jurisdiction } = handle.record;
  if (callback.kind !== 'inline') return undefined;
  const { projectId, monitorId } = wanted;
  const state = await bindings.read({ projectId, monitorId, jurisdiction, binding: callback });
  const endpointId = state.target?.endpointId ?? known?.secret.metadata.annotations?.[ENDPOINT_ANNOTATION];
  if (handle.signingSecret !== undefined) return { secret: handle.signingSecret, endpointId };
  const kept = known?.data.signingSecret;
  if (kept !== undefined && !isRotatedElsewhere && isTrusted(object, known, endpointId)) {
    return { secret: kept, endpointId };
  }
  await handle.setBinding(callback, true);
  // A replay shows none: the answer was lost once more, and the next pass, of the next version, rotates again.
  if (handle.signingSecret === undefined)
    throw new Error('The API showed no signing secret for the rotation.');
  return { secret: handle.signingSecret, endpointId };
}

/** It was issued for this endpoint, and nobody edited it since. */
function isTrusted(
  { status }: MonitorObject,
  known: OwnedSecret | undefined,
  endpointId: string | undefined,
): boolean {
  if (known?.secret.metadata.annotations?.[ENDPOINT_ANNOTATION] !== endpointId) return false;
  const given = parseSpecHash(status?.specHash).secret;
  return given === '' || given === secretHash(ours(known?.data ?? {}));
}

interface Rewritten {
  name: string;
  known: OwnedSecret | undefined;
  data: Record<string, string>;
}

/** Nothing about the first writing: that is part of the creation. */
function recordSecretChange(
  context: OperatorContext,
  object: MonitorObject,
  { name, known, data }: Rewritten,
): void {
  const given = parseSpecHash(object.status?.specHash).secret;
  if (object.status?.publishSecretRef?.name !== name || given === '') return;
  const wasIntact = known !== undefined && secretHash(ours(known.data)) === given;
  if (!wasIntact) {
    recordEvent(
      context,
      object,
      'SecretRestored',
      `The Secret ${name} was missing or changed and is right again.`,
    );
    return;
  }
  const what = known.data.url === data.url ? 'The signing secret' : 'The publish address';
  recordEvent(context, object, 'SecretRotated', `${what} is a new one; the Secret ${name} has it.`);
}

/** Of everything that the API shows of a configuration: a change that it does not show is one of a secret. */
export function visibleHash({ record }: MonitorHandle): string {
  const { configurationVersion: _version, status: _status, updatedAt: _at, ...visible } = record;
  return contentHash(visible);
}
