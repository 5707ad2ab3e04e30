// Typed calls to the Kubernetes API. Knows resources and verbs; nothing of caching, retries or watching on.

import type { KubeError } from './kube-error.ts';
import { isNotFound, kubeErrorFromStatus } from './kube-error.ts';
import type { KubeList, KubeObject, KubeResource, ObjectRef } from './kube-object.ts';
import { resourcePath } from './kube-object.ts';
import type { KubeTransport } from './kube-transport.ts';

export interface CallOptions {
  signal?: AbortSignal;
  /** Whole time of the call, milliseconds. Default: the transport's 10 s. */
  timeoutMs?: number;
}

export interface WriteOptions extends CallOptions {
  subresource?: 'status';
  /** Who owns the written fields. Default: the first part of the user agent. */
  fieldManager?: string;
}

export interface ListOptions extends CallOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Page size; the answer's `metadata.continue` asks for the next page. */
  limit?: number;
  continue?: string;
}

export interface WatchOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Events after this version. */
  resourceVersion: string;
  /** The server ends the watch after this time. */
  timeoutSeconds: number;
  signal: AbortSignal;
}

export type WatchEvent<T> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: T }
  | { type: 'BOOKMARK'; resourceVersion: string };

export interface ApplyOptions extends WriteOptions {
  fieldManager: string;
  /** Take fields over from other managers. Default true: a controller owns what it applies. */
  force?: boolean;
}

export interface DeleteOptions extends CallOptions {
  /** Delete only this very object, not one of the same name made since. */
  uid?: string;
  resourceVersion?: string;
  propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
}

/** Every method throws KubeError. Objects come back with apiVersion and kind set. */
export class KubeClient {
  readonly #transport: KubeTransport;

  constructor(transport: KubeTransport) {
    this.#transport = transport;
  }

  /** Throws KubeError 404 if it is not there. */
  async get<T extends KubeObject>(
    resource: KubeResource<T>,
    ref: ObjectRef,
    options: CallOptions = {},
  ): Promise<T> {
    const path = resourcePath(resource, ref);
    return decode(resource, await this.#transport.request({ method: 'GET', path, ...options }));
  }

  /** As `get`, but undefined if it is not there. */
  async find<T extends KubeObject>(
    resource: KubeResource<T>,
    ref: ObjectRef,
    options: CallOptions = {},
  ): Promise<T | undefined> {
    try {
      return await this.get(resource, ref, options);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** One page. */
  async list<T extends KubeObject>(
    resource: KubeResource<T>,
    options: ListOptions = {},
  ): Promise<KubeList<T>> {
    const { namespace, labelSelector, fieldSelector, limit, continue: token, ...call } = options;
    const path = resourcePath(resource, { namespace });
    const query = { labelSelector, fieldSelector, limit, continue: token };
    const raw = await this.#transport.request({ method: 'GET', path, query, ...call });
    if (!isRawList(raw)) throw new TypeError(`The list of ${resource.plural} is no list.`);
    return {
      metadata: raw.metadata ?? {},
      items: (raw.items ?? []).map((item) => decode(resource, item)),
    };
  }

  /** All pages, one object at a time. */
  async *listAll<T extends KubeObject>(
    resource: KubeResource<T>,
    options: ListOptions = {},
  ): AsyncGenerator<T> {
    let token: string | undefined;
    do {
      const page = await this.list(resource, { limit: 500, ...options, continue: token });
      yield* page.items;
      token = page.metadata.continue === '' ? undefined : page.metadata.continue;
    } while (token !== undefined);
  }

  /**
   * Events until the server ends the watch. Throws KubeError for a refusal, an ERROR event (410 = Expired:
   * list again) or a broken connection.
   */
  async *watch<T extends KubeObject>(
    resource: KubeResource<T>,
    options: WatchOptions,
  ): AsyncGenerator<WatchEvent<T>> {
    const { namespace, signal, ...query } = options;
    const path = resourcePath(resource, { namespace });
    const lines = this.#transport.streamLines({
      method: 'GET',
      path,
      query: { watch: true, allowWatchBookmarks: true, ...query },
      signal,
    });
    for await (const line of lines) yield readWatchEvent(resource, line);
  }

  /** POST. Throws KubeError 409 `AlreadyExists` (see `isAlreadyExists`). */
  async create<T extends KubeObject>(
    resource: KubeResource<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    const { fieldManager, subresource, ...call } = options;
    const path = resourcePath(resource, { namespace: object.metadata.namespace }, subresource);
    const body = withKind(resource, object);
    return decode(
      resource,
      await this.#transport.request({ method: 'POST', path, query: { fieldManager }, body, ...call }),
    );
  }

  /** PUT. With `metadata.resourceVersion` the write is refused (409) if the object has moved on. */
  async replace<T extends KubeObject>(
    resource: KubeResource<T>,
    object: T,
    options: WriteOptions = {},
  ): Promise<T> {
    const { fieldManager, subresource, ...call } = options;
    const path = resourcePath(resource, object.metadata, subresource);
    const body = withKind(resource, object);
    return decode(
      resource,
      await this.#transport.request({ method: 'PUT', path, query: { fieldManager }, body, ...call }),
    );
  }

  /** JSON merge patch (RFC 7396). `metadata.resourceVersion` and `metadata.uid` in it guard the write (409). */
  async mergePatch<T extends KubeObject>(
    resource: KubeResource<T>,
    ref: ObjectRef,
    patch: object,
    options: WriteOptions = {},
  ): Promise<T> {
    const { fieldManager, subresource, ...call } = options;
    return decode(
      resource,
      await this.#transport.request({
        method: 'PATCH',
        path: resourcePath(resource, ref, subresource),
        query: { fieldManager },
        contentType: 'application/merge-patch+json',
        body: patch,
        ...call,
      }),
    );
  }

  /** Server-side apply. `object` holds every field that `fieldManager` owns: one left out is removed. */
  async apply<T extends KubeObject>(
    resource: KubeResource<T>,
    object: KubeObject,
    options: ApplyOptions,
  ): Promise<T> {
    const { fieldManager, subresource, force = true, ...call } = options;
    return decode(
      resource,
      await this.#transport.request({
        method: 'PATCH',
        path: resourcePath(resource, object.metadata, subresource),
        query: { fieldManager, force },
        contentType: 'application/apply-patch+yaml',
        body: withKind(resource, object),
        ...call,
      }),
    );
  }

  /** False if it was gone already. Throws KubeError 409 if `uid` or `resourceVersion` does not fit. */
  async delete(resource: KubeResource, ref: ObjectRef, options: DeleteOptions = {}): Promise<boolean> {
    const { uid, resourceVersion, propagationPolicy, ...call } = options;
    const guarded = uid !== undefined || resourceVersion !== undefined;
    const body = {
      apiVersion: 'v1',
      kind: 'DeleteOptions',
      propagationPolicy,
      ...(guarded ? { preconditions: { uid, resourceVersion } } : {}),
    };
    try {
      await this.#transport.request({ method: 'DELETE', path: resourcePath(resource, ref), body, ...call });
      return true;
    } catch (error) {
      if (isNotFound(error)) return false;
      throw error;
    }
  }
}

interface RawList {
  metadata?: KubeList<unknown>['metadata'];
  items?: unknown[] | null;
}

function isRawList(raw: unknown): raw is RawList {
  return typeof raw === 'object' && raw !== null && 'items' in raw;
}

function withKind<T extends KubeObject>(resource: KubeResource, object: T): T {
  return { ...object, apiVersion: resource.apiVersion, kind: resource.kind };
}

/** Items of built-in lists come without apiVersion and kind. */
function decode<T extends KubeObject>(resource: KubeResource<T>, raw: unknown): T {
  if (typeof raw !== 'object' || raw === null || !('metadata' in raw)) {
    throw new TypeError(`The answer is no ${resource.kind}.`);
  }
  const object = trusted<T>({ ...raw, apiVersion: resource.apiVersion, kind: resource.kind });
  return resource.transform === undefined ? object : resource.transform(object);
}

/** The server has checked the object against its own schema. */
function trusted<T extends KubeObject>(raw: unknown): T {
  return raw as T;
}

interface RawWatchEvent {
  type?: unknown;
  object?: unknown;
}

function readWatchEvent<T extends KubeObject>(resource: KubeResource<T>, line: string): WatchEvent<T> {
  const event: RawWatchEvent = JSON.parse(line);
  switch (event.type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
      return { type: event.type, object: decode(resource, event.object) };
    case 'BOOKMARK':
      return { type: 'BOOKMARK', resourceVersion: bookmarkVersion(event.object) };
    default:
      throw watchError(event.object);
  }
}

function bookmarkVersion(raw: unknown): string {
  const object = raw as { metadata?: { resourceVersion?: string } } | null;
  return object?.metadata?.resourceVersion ?? '';
}

function watchError(raw: unknown): KubeError {
  return kubeErrorFromStatus(typeof raw === 'object' && raw !== null ? raw : {});
}
