// The Secret of a Monitor: its publish address, and the signing secret of an inline binding, which the API shows once.
import type { BindingDirectory } from '../../known/binding-directory.ts';
import type { PublishBase } from '../../known/publish-base.ts';
import type { OperatorContext } from '../../operator-context.ts';
import { parseSpecHash, secretHash } from '../../pass/desired-hash.ts';
import type { OwnedSecret, SecretContent, SecretKind } from '../../pass/kind.ts';
import { publishSecretNameOf } from './desired-monitor.ts';
import type { MonitorObject } from './monitor-object.ts';
import type { MonitorWork } from './monitor-work.ts';

/** The endpoint that `signingSecret` was issued for. */
const ENDPOINT_ANNOTATION = 'beatkeeper.dev/inline-endpoint-id';

export class MonitorSecret implements SecretKind<MonitorWork> {
  readonly statusField = 'publishSecretRef';
  readonly keys = ['url', 'signingSecret'];
  readonly nameOf = publishSecretNameOf;
  readonly hashOf = secretHash;
  readonly #bindings: BindingDirectory;
  readonly #publishBase: PublishBase;

  constructor({ bindings, publishBase }: Pick<OperatorContext, 'bindings' | 'publishBase'>) {
    this.#bindings = bindings;
    this.#publishBase = publishBase;
  }

  get intactSinceMs(): number | undefined {
    return this.#publishBase.knownSinceMs;
  }

  /** The installation has got another public address. */
  isOutdated({ url = '' }: Readonly<Record<string, string>>): boolean {
    return !this.#publishBase.isOf(url);
  }

  async contentOf(work: MonitorWork, known: OwnedSecret | undefined): Promise<SecretContent> {
    const inline = await this.#inlineSecret(work, known);
    const data: Record<string, string> = {
      url: work.external.record.publishUrl ?? '',
      ...(inline === undefined ? {} : { signingSecret: inline.secret }),
    };
    const annotations = { [ENDPOINT_ANNOTATION]: inline?.endpointId };
    return { data, annotations, event: eventOf(work, known, data) };
  }

  /** The signing secret for the Secret; undefined if the binding is not inline. */
  async #inlineSecret(
    { object, desired, external }: MonitorWork,
    known: OwnedSecret | undefined,
  ): Promise<{ secret: string; endpointId: string | undefined } | undefined> {
    const { callback, jurisdiction } = external.record;
    if (callback.kind !== 'inline') return undefined;
    const { projectId, id: monitorId } = desired;
    const state = await this.#bindings.read({ projectId, monitorId, jurisdiction, binding: callback });
    const endpointId = state.target?.endpointId ?? known?.annotations[ENDPOINT_ANNOTATION];
    if (external.signingSecret !== undefined) return { secret: external.signingSecret, endpointId };
    const kept = known?.data.signingSecret;
    if (kept !== undefined && !external.isRotatedElsewhere && isTrusted(object, known, endpointId)) {
      return { secret: kept, endpointId };
    }
    await external.setBinding(callback, true);
    // A replay shows none: its first answer was lost, and the next pass rotates again, with the next version.
    if (external.signingSecret === undefined)
      throw new Error('The API showed no signing secret for the rotation.');
    return { secret: external.signingSecret, endpointId };
  }
}

/** True if the known secret was issued for this endpoint and was not edited since. */
function isTrusted(
  { status }: MonitorObject,
  known: OwnedSecret | undefined,
  endpointId: string | undefined,
): boolean {
  if (known?.annotations[ENDPOINT_ANNOTATION] !== endpointId) return false;
  const given = parseSpecHash(status?.specHash).secret;
  return given === '' || given === secretHash(known?.data ?? {});
}

/** Undefined for the first write: it is part of the creation. */
function eventOf(
  { object, desired }: MonitorWork,
  known: OwnedSecret | undefined,
  data: Record<string, string>,
): SecretContent['event'] {
  const { status } = object;
  const name = desired.secretName;
  const given = parseSpecHash(status?.specHash).secret;
  if (status?.publishSecretRef?.name !== name || given === '') return undefined;
  const held = known && secretHash(known.data);
  if (held === secretHash(data)) return undefined;
  if (held !== given)
    return ['SecretRestored', `The Secret ${name} was missing or changed: restored its content.`];
  return [
    'SecretRotated',
    `${describeChange(known?.data.url, data.url)}: the Secret ${name} holds the new one.`,
  ];
}

function describeChange(before = '', now = ''): string {
  if (before === now) return 'The signing secret was rotated';
  const isSameId = before.split('/').at(-1) === now.split('/').at(-1);
  return isSameId
    ? 'The installation has another public address, with which the publish address begins'
    : 'The publish address was rotated';
}
