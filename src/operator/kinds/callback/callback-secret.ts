// The Secret of a Callback: the signing secret, the one before it during an overlap, and when to rotate. The API shows
// a secret once: one that is lost, edited or rotated elsewhere is replaced by a new one.

import { type OperatorContext, recordEvent } from '../../operator-context.ts';
import {
  findFormerSecret,
  isMarked,
  type OwnedSecret,
  readOwnedSecret,
  writeOwnedSecret,
} from '../../pass/owned-secret.ts';
import { contentHash, parseSpecHash, secretHash } from '../../resources/content-hash.ts';
import { ANNOTATION } from '../../resources/names.ts';
import type { CallbackHandle } from './callback-handle.ts';
import { CALLBACKS, type CallbackObject } from './callback-object.ts';
import { rotationEveryMs, type WantedCallback } from './wanted-callback.ts';

const KEYS = ['secret', 'previousSecret', 'version'] as const;
/** `<projectId>/<endpointId>`: whose secret it is. */
const ENDPOINT_ANNOTATION = 'beatkeeper.dev/signing-endpoint';
const MAX_ROTATION_VALUE = 1024;

export interface SigningFacts {
  object: CallbackObject;
  wanted: WantedCallback;
  handle: CallbackHandle;
  /** The endpoint was made in this pass. */
  isCreated: boolean;
}

export interface SigningOutcome {
  /** Of the Secret; '' where the kind has none. */
  hash: string;
  lastRotation: NonNullable<CallbackObject['status']>['lastRotation'];
  /** When the next rotation or the end of an overlap is due; Infinity: never. */
  dueInMs: number;
}

/** Rotates where it is time, and makes the Secret right. Throws Blocked `SecretConflict`, ApiProblem, KubeError. */
export async function ensureSigningSecret(
  context: OperatorContext,
  facts: SigningFacts,
): Promise<SigningOutcome> {
  const { object, wanted, handle } = facts;
  const lastRotation = lastRotationOf(object);
  if (wanted.secretName === undefined) return { hash: '', lastRotation, dueInMs: Number.POSITIVE_INFINITY };
  const owner = { resource: CALLBACKS, object };
  const known = await readOwnedSecret(context.kube, owner, wanted.secretName);
  // One that was given another name: what it holds is still right.
  const names = { former: object.status?.signingSecretRef?.name, current: wanted.secretName };
  const found = known ?? (await findFormerSecret(context.kube, owner, names));
  // The secret of another endpoint, which the object stood for before, may have the same version.
  const annotations = { [ENDPOINT_ANNOTATION]: `${wanted.projectId}/${wanted.endpointId}` };
  const source = found && isOf(found, annotations[ENDPOINT_ANNOTATION]) ? found : undefined;
  const asked = await rotateAsAsked(facts, source);
  const isReplaced = handle.issued === undefined && !isCurrent(facts, source);
  if (isReplaced) await handle.rotate(`lost:${handle.endpoint.secret?.version}`, wanted.overlapSeconds);
  const data = nextData(facts, source);
  const isRight = known !== undefined && contentHash(ours(known)) === contentHash(data);
  if (!isRight || !isMarked(known, owner, annotations)) {
    const content = { name: wanted.secretName, data, keys: KEYS, annotations };
    await writeOwnedSecret(context.kube, owner, known, content);
  }
  recordSecretChange(context, facts, { known: source, isAsked: asked.rotates, isReplaced });
  return { hash: hashOf(data), lastRotation: asked.lastRotation, dueInMs: dueInMs(facts) };
}

/** One that does not say whose secret it holds is believed: somebody brought it back without annotations. */
function isOf({ secret }: OwnedSecret, endpoint: string | undefined): boolean {
  const stated = secret.metadata.annotations?.[ENDPOINT_ANNOTATION];
  return stated === undefined || stated === endpoint;
}

function ours(known: OwnedSecret): Record<string, string> {
  return Object.fromEntries(
    KEYS.flatMap((key) => (known.data[key] === undefined ? [] : [[key, known.data[key]]])),
  );
}

/** Without the previous secret, which goes by itself. */
function hashOf({ secret, version }: Record<string, string>): string {
  return secretHash({ secret: secret ?? '', version: version ?? '' });
}

function lastRotationOf({ status }: CallbackObject): SigningOutcome['lastRotation'] {
  return status?.lastRotation;
}

/** The annotation's value and the age of the secret. */
async function rotateAsAsked(
  facts: SigningFacts,
  known: OwnedSecret | undefined,
): Promise<{ rotates: boolean; lastRotation: SigningOutcome['lastRotation'] }> {
  const { object, wanted, handle } = facts;
  const last = lastRotationOf(object);
  const stated = object.metadata.annotations?.[ANNOTATION.rotate];
  const value = stated === undefined || stated.length <= MAX_ROTATION_VALUE ? stated : contentHash(stated);
  if (value !== undefined && value !== last?.value) {
    // One that is there at creation does not rotate: before the first status there was nothing to rotate.
    if (facts.isCreated || object.status?.endpointId === undefined)
      return { rotates: false, lastRotation: { value } };
    await handle.rotate(`asked:${contentHash([value, last])}`, wanted.overlapSeconds);
    return { rotates: true, lastRotation: { value, at: new Date().toISOString() } };
  }
  const everyMs = rotationEveryMs(object.spec);
  const { secret } = handle.endpoint;
  const isOld =
    everyMs !== undefined && secret !== undefined && Date.parse(secret.issuedAt) + everyMs <= Date.now();
  if (!isOld || facts.isCreated || !isCurrent(facts, known)) return { rotates: false, lastRotation: last };
  await handle.rotate(`every:${secret.version}`, wanted.overlapSeconds);
  return { rotates: true, lastRotation: last };
}

/** The Secret holds the secret that signs now, as far as we can know. */
function isCurrent({ object, handle }: SigningFacts, known: OwnedSecret | undefined): boolean {
  if (known?.data.secret === undefined) return false;
  return isUntouched(object, known) && Number(known.data.version) === handle.endpoint.secret?.version;
}

function isUntouched({ status }: CallbackObject, known: OwnedSecret): boolean {
  const given = parseSpecHash(status?.specHash).secret;
  // A pass that wrote a new secret and not the status: its version tells.
  const isNewer = Number(known.data.version) > (status?.secretVersion ?? 0);
  return given === '' || isNewer || given === hashOf(known.data);
}

function nextData({ object, handle }: SigningFacts, known: OwnedSecret | undefined): Record<string, string> {
  const { issued, endpoint } = handle;
  const current = endpoint.secret;
  if (issued === undefined) {
    const { secret = '', version = '', previousSecret } = known?.data ?? {};
    const overlaps = current?.previousVersion !== undefined && previousSecret !== undefined;
    return { secret, version, ...(overlaps ? { previousSecret } : {}) };
  }
  const isPrevious =
    known !== undefined &&
    isUntouched(object, known) &&
    issued.previousVersion !== undefined &&
    Number(known.data.version) === issued.previousVersion;
  return {
    secret: issued.secret,
    version: String(issued.version),
    ...(isPrevious && known.data.secret !== undefined ? { previousSecret: known.data.secret } : {}),
  };
}

function dueInMs({ object, handle }: SigningFacts): number {
  const { secret } = handle.endpoint;
  const everyMs = rotationEveryMs(object.spec);
  const nowMs = Date.now();
  const rotation =
    secret && everyMs !== undefined ? Date.parse(secret.issuedAt) + everyMs - nowMs : undefined;
  const overlap = secret?.overlapEndsAt === undefined ? undefined : Date.parse(secret.overlapEndsAt) - nowMs;
  return Math.max(1000, Math.min(rotation ?? Number.POSITIVE_INFINITY, overlap ?? Number.POSITIVE_INFINITY));
}

interface Change {
  known: OwnedSecret | undefined;
  isAsked: boolean;
  isReplaced: boolean;
}

function recordSecretChange(
  context: OperatorContext,
  { object, wanted, handle }: SigningFacts,
  { known, isAsked, isReplaced }: Change,
): void {
  const version = handle.endpoint.secret?.version;
  const wasGiven = parseSpecHash(object.status?.specHash).secret !== '';
  if (isAsked) {
    recordEvent(
      context,
      object,
      'SecretRotated',
      `The signing secret has version ${version}; the Secret ${wanted.secretName} has it.`,
    );
  } else if (isReplaced && wasGiven) {
    const isElsewhere = known !== undefined && isUntouched(object, known);
    const why = isElsewhere ? 'was rotated elsewhere' : 'was missing or changed';
    const reason = isElsewhere ? 'SecretRotated' : 'SecretRestored';
    const words = `The Secret ${wanted.secretName} ${why}; it has a new signing secret, version ${version}.`;
    recordEvent(context, object, reason, words);
  }
}
