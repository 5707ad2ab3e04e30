// The Secret of a Callback: the signing secret, the previous one during an overlap, and when to rotate. The API shows a
// secret once, so one that was lost, edited or rotated through the API is replaced by a new one.
import { contentHash, parseSpecHash, secretHash } from '../../pass/desired-hash.ts';
import type { OwnedSecret, SecretContent, SecretKind } from '../../pass/kind.ts';
import { ANNOTATION } from '../../resources/names.ts';
import type { CallbackObject } from './callback-object.ts';
import type { CallbackWork } from './callback-work.ts';
import { rotationEveryMs, signingSecretNameOf } from './desired-callback.ts';

/** `<projectId>/<endpointId>`: the endpoint that the secret was issued for. */
const ENDPOINT_ANNOTATION = 'beatkeeper.dev/signing-endpoint';
const MAX_ROTATION_VALUE = 1024;

export const SIGNING_SECRET: SecretKind<CallbackWork> = {
  statusField: 'signingSecretRef',
  keys: ['secret', 'previousSecret', 'version'],
  nameOf: signingSecretNameOf,
  hashOf,
  /** Rotates if a rotation is requested or due. */
  async contentOf(work, found) {
    const { desired, external } = work;
    // The secret of a former endpoint may have the same version.
    const annotations = { [ENDPOINT_ANNOTATION]: `${desired.projectId}/${desired.id}` };
    const known = found && isOf(found, annotations[ENDPOINT_ANNOTATION]) ? found : undefined;
    const isAsked = await rotateAsAsked(work, known);
    const isReplaced = external.issued === undefined && !isCurrent(work, known);
    if (isReplaced)
      await external.rotate(`lost:${external.endpoint.secret?.version}`, desired.overlapSeconds);
    work.dueInMs = dueInMs(work);
    return {
      data: nextData(work, known),
      annotations,
      event: eventOf(work, { known, isAsked, isReplaced }),
    };
  },
};

/** A Secret without the annotation counts as right: somebody restored it without annotations. */
function isOf({ annotations }: OwnedSecret, endpoint: string | undefined): boolean {
  const stated = annotations[ENDPOINT_ANNOTATION];
  return stated === undefined || stated === endpoint;
}

/** Without the previous secret, which the end of the overlap removes. */
function hashOf({ secret, version }: Readonly<Record<string, string>>): string {
  return secretHash({ secret: secret ?? '', version: version ?? '' });
}

/** Rotates by the annotation's value and the age of the secret. True if it did. */
async function rotateAsAsked(work: CallbackWork, known: OwnedSecret | undefined): Promise<boolean> {
  const { object, desired, external } = work;
  const last = object.status?.lastRotation;
  const stated = object.metadata.annotations?.[ANNOTATION.rotate];
  const value = stated === undefined || stated.length <= MAX_ROTATION_VALUE ? stated : contentHash(stated);
  if (value !== undefined && value !== last?.value) {
    // A value that is present at the creation does not rotate: there is nothing to replace yet.
    const isFirst = external.isCreated || object.status?.endpointId === undefined;
    if (!isFirst) await external.rotate(`asked:${contentHash([value, last])}`, desired.overlapSeconds);
    external.lastRotation = isFirst ? { value } : { value, at: new Date(external.nowMs).toISOString() };
    return !isFirst;
  }
  const everyMs = rotationEveryMs(object.spec);
  const { secret } = external.endpoint;
  const isOld =
    everyMs !== undefined && secret !== undefined && Date.parse(secret.issuedAt) + everyMs <= external.nowMs;
  if (!isOld || external.isCreated || !isCurrent(work, known)) return false;
  await external.rotate(`every:${secret.version}`, desired.overlapSeconds);
  return true;
}

/** True if the Secret holds the current signing secret, as far as its version and hash show. */
function isCurrent({ object, external }: CallbackWork, known: OwnedSecret | undefined): boolean {
  if (known?.data.secret === undefined) return false;
  return isUntouched(object, known) && Number(known.data.version) === external.endpoint.secret?.version;
}

function isUntouched({ status }: CallbackObject, known: OwnedSecret): boolean {
  const given = parseSpecHash(status?.specHash).secret;
  // A newer version than the status has: a pass wrote the Secret and did not reach the status.
  const isNewer = Number(known.data.version) > (status?.secretVersion ?? 0);
  return given === '' || isNewer || given === hashOf(known.data);
}

function nextData(
  { object, external }: CallbackWork,
  known: OwnedSecret | undefined,
): Record<string, string> {
  const { issued, endpoint } = external;
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

/** When the next rotation or the end of an overlap is due; Infinity: never. */
function dueInMs({ object, external }: CallbackWork): number {
  const { nowMs } = external;
  const { secret } = external.endpoint;
  const everyMs = rotationEveryMs(object.spec);
  const rotation =
    secret && everyMs !== undefined ? Date.parse(secret.issuedAt) + everyMs - nowMs : undefined;
  const overlap = secret?.overlapEndsAt === undefined ? undefined : Date.parse(secret.overlapEndsAt) - nowMs;
  return Math.max(1000, Math.min(rotation ?? Number.POSITIVE_INFINITY, overlap ?? Number.POSITIVE_INFINITY));
}

function eventOf(
  { object, desired, external }: CallbackWork,
  { known, isAsked, isReplaced }: { known: OwnedSecret | undefined; isAsked: boolean; isReplaced: boolean },
): SecretContent['event'] {
  const { secretName } = desired;
  const version = external.endpoint.secret?.version;
  if (isAsked)
    return [
      'SecretRotated',
      `Rotated the signing secret: the Secret ${secretName} holds version ${version}.`,
    ];
  const wasGiven = parseSpecHash(object.status?.specHash).secret !== '';
  if (!isReplaced || !wasGiven) return undefined;
  const isElsewhere = known !== undefined && isUntouched(object, known);
  const note = isElsewhere
    ? `The signing secret was rotated through the API: the Secret ${secretName} holds a new one, version ${version}.`
    : `The Secret ${secretName} was missing or changed: it holds a new signing secret, version ${version}.`;
  return [isElsewhere ? 'SecretRotated' : 'SecretRestored', note];
}
