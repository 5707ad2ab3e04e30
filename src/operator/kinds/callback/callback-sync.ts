// Brings the API to what a Callback wants: finds or makes the endpoint, changes what differs, makes the Secret right.
// Each step may have been done before; a pass that ends anywhere is gone on with by the next one.

import { isTaken } from '../../../client/api-problem.ts';
import type { CallbackEndpoint } from '../../../contract/resources/callback.ts';
import { type OperatorContext, recordEvent } from '../../operator-context.ts';
import { announceFields } from '../../pass/announce-fields.ts';
import { claimObject } from '../../pass/claim-object.ts';
import { deleteFormerSecret } from '../../pass/owned-secret.ts';
import type { ObjectPass } from '../../pass/reconcile-object.ts';
import { recordDifferences, recordDrift } from '../../pass/record-differences.ts';
import { formatSpecHash, parseSpecHash } from '../../resources/content-hash.ts';
import { nextEndpointId, ownId } from '../../resources/identity.ts';
import { ANNOTATION } from '../../resources/names.ts';
import { ensureDefault } from './callback-default.ts';
import { leaveEndpoint, leaveFormerEndpoint } from './callback-deletion.ts';
import { CallbackHandle } from './callback-handle.ts';
import { CALLBACKS, type CallbackObject } from './callback-object.ts';
import { ensureSigningSecret } from './callback-secret.ts';
import { type CallbackStatusFacts, callbackStatusOf } from './callback-status.ts';
import type { DefaultRank } from './default-callback.ts';
import { createCallbackBodyOf, planCallback, type WantedCallback } from './wanted-callback.ts';

/** What a pass has found out so far: for the status, also where the pass ends in a fault. */
export interface CallbackPass extends ObjectPass<CallbackObject> {
  fields: CallbackStatusFacts['fields'];
  endpoint?: CallbackEndpoint;
  rank?: DefaultRank;
  /** An address that a Secret holds: never to be shown. */
  hiddenUrl?: string;
  /** When something is due at the signing secret. */
  dueInMs: number;
}

/** Throws Blocked, ApiProblem, KubeError. What is known until then is in `pass`. */
export async function syncCallback(
  context: OperatorContext,
  pass: CallbackPass,
  first: WantedCallback,
): Promise<void> {
  await leaveFormer(context, pass, first);
  const { ownedFields } = first;
  const announced = {
    resource: CALLBACKS,
    projectId: first.projectId,
    ownedFields,
    statusOf: callbackStatusOf,
  };
  await announceFields(context, pass, announced);
  const { wanted, handle, isCreated } = await findOrCreate(context, pass, first);
  const { endpointId, projectId } = wanted;
  pass.endpoint = handle.endpoint;
  pass.fields = { ...pass.fields, endpointId, projectId };
  const { status } = pass.object;
  const isChanged = parseSpecHash(status?.specHash).wanted !== first.hash;
  const facts = { endpoint: handle.endpoint, owned: status?.ownedFields, isChanged };
  const plan = planCallback(wanted, facts);
  if (plan.patch !== undefined) await handle.update(plan.patch);
  pass.endpoint = handle.endpoint;
  const signing = await ensureSigningSecret(context, { object: pass.object, wanted, handle, isCreated });
  pass.endpoint = handle.endpoint;
  pass.dueInMs = signing.dueInMs;
  pass.fields.lastRotation = signing.lastRotation;
  pass.rank = await ensureDefault(context, { object: pass.object, wanted, handle });
  pass.endpoint = handle.endpoint;
  const names = { former: pass.object.status?.signingSecretRef?.name, current: wanted.secretName };
  await deleteFormerSecret(context.kube, { resource: CALLBACKS, object: pass.object }, names);
  recordChanges(context, pass.object, { endpointId, isCreated, isChanged, fields: plan.fields });
  pass.fields = {
    ...pass.fields,
    ownedFields,
    specHash: formatSpecHash({ wanted: first.hash, secret: signing.hash }),
    signingSecretRef: wanted.secretName === undefined ? undefined : { name: wanted.secretName },
  };
}

/** A namespace that was given to another project, or another id: what stood for the object until now ends. */
async function leaveFormer(
  context: OperatorContext,
  pass: CallbackPass,
  { projectId, endpointId }: WantedCallback,
): Promise<void> {
  const { object, signal } = pass;
  const { status } = object;
  if (status?.projectId === undefined) return;
  if (status.projectId === projectId) {
    if (status.endpointId === undefined || status.endpointId === endpointId) return;
    await leaveFormerEndpoint(context, object, { endpointId, signal });
  } else if (status.endpointId !== undefined) {
    const former = { projectId: status.projectId, endpointId: status.endpointId, signal };
    await leaveEndpoint(context, object, former);
  }
  const { signingSecretRef, lastRotation } = status;
  // Nothing else of the status holds for the new one.
  pass.object = { ...object, status: { signingSecretRef, lastRotation } };
}

interface FoundEndpoint {
  /** With the id that the endpoint has in the end. */
  wanted: WantedCallback;
  handle: CallbackHandle;
  isCreated: boolean;
}

async function findOrCreate(
  context: OperatorContext,
  pass: CallbackPass,
  wanted: WantedCallback,
): Promise<FoundEndpoint> {
  const { projectId, endpointId } = wanted;
  const uid = pass.object.metadata.uid ?? '';
  const handle = new CallbackHandle(context.api, { projectId, endpointId, uid, signal: pass.signal });
  if ((await handle.read()) !== undefined) return { wanted, handle, isCreated: false };
  try {
    await handle.create(createCallbackBodyOf(wanted));
    return { wanted, handle, isCreated: true };
  } catch (error) {
    if (!isTaken(error, 'endpointId')) throw error;
    // One of that id was removed elsewhere. The next id is noted before it is used.
    const id = nextEndpointId(endpointId, pass.object);
    const mark = { annotation: ANNOTATION.endpointId, id };
    pass.object = await claimObject(context.kube, CALLBACKS, pass.object, mark);
    return await findOrCreate(context, pass, { ...wanted, endpointId: id });
  }
}

interface Outcome {
  endpointId: string;
  isCreated: boolean;
  isChanged: boolean;
  fields: string[];
}

function recordChanges(context: OperatorContext, object: CallbackObject, outcome: Outcome): void {
  const { endpointId, isCreated, isChanged, fields } = outcome;
  const before = object.status?.endpointId;
  const isOwn = endpointId.startsWith(ownId('cb', object));
  if (isCreated && before !== undefined)
    recordDrift(
      context,
      object,
      `The callback endpoint ${before} was removed elsewhere; made ${endpointId}.`,
    );
  else if (before === endpointId) recordDifferences(context, object, { fields, isChanged });
  else if (isCreated || isOwn)
    recordEvent(context, object, 'Created', `Made the callback endpoint ${endpointId}.`);
  else recordEvent(context, object, 'Adopted', `Took over the callback endpoint ${endpointId}.`);
}
