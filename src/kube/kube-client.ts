// Typed calls to the Kubernetes API: resources and verbs. It does not cache, retry or resume a watch.

import type { KubeError } from './kube-error.ts';
import { isNotFound, kubeErrorFromStatus } from './kube-error.ts';
import type { KubeList, KubeObject, KubeResource, ObjectRef } from './kube-object.ts';
import { resourcePath } from './kube-object.ts';
import type { KubeTransport } from './kube-transport.ts';

export interface CallOptions {
  signal?: AbortSignal;
  /** Time limit of the whole call, in milliseconds. Default: the transport's 10 s. */
  timeoutMs?: number;
}

export interface WriteOptions extends CallOptions {
  subresource?: 'status';
  /** The owner of the written fields. Default: the first part of the user agent. */
  fieldManager?: string;
}

export interface ListOptions extends CallOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Page size. The answer's `metadata.continue` is the token of the next page. */
  limit?: number;
  continue?: string;
}

export interface WatchOptions {
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** The watch yields the events after this version. */
  resourceVersion: string;
  /** The server ends the watch after this time. */
  timeoutSeconds: number;
  signal: AbortSignal;
  /** Called when the server has opened the watch: events may be long in coming. */
  onOpen?: () => void;
}

export type WatchEvent<T> =
  | { type: 'ADDED' | 'MODIFIED' | 'DELETED'; object: T }
  | { type: 'BOOKMARK'; resourceVersion: string };

export interface ApplyOptions extends WriteOptions {
  fieldManager: string;
  /** Takes fields from other managers. Default true: a controller owns what it applies. */
  force?: boolean;
}

export interface DeleteOptions extends CallOptions {
  /** Deletes only the object with this uid, not a later one of the same name. */
  uid?: string;
  resourceVersion?: string;
  propagationPolicy?: 'Background' | 'Foreground' | 'Orphan';
}

/** Of a log: more than anybody reads. */
const MAX_LOG_BYTES = 262_144;

/** Every method throws KubeError. Returned objects have apiVersion and kind set. */
export class KubeClient {
  readonly #transport: KubeTransport;

  constructor(transport: KubeTransport) {
    this.#transport = transport;
  }

  /** Reads an object. Throws KubeError 404 if it does not exist. */
  async get<T extends KubeObject>(
    resource: KubeResource<T>,
    ref: ObjectRef,
    options: CallOptions = {},
  ): Promise<T> {
    const path = resourcePath(resource, ref);
    return decode(resource, await this.#transport.request({ method: 'GET', path, ...options }));
  }

  /** As `get`, but returns undefined if the object does not exist. */
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

  /** Reads one page. */
  async list<T extends KubeObject>(
    resource: KubeResource<T>,
    options: ListOptions = {},
  ): Promise<KubeList<T>> {
    const { namespace, labelSelector, fieldSelector, limit, continue: token, ...call } = options;
    const path = resourcePath(resource, { namespace });
    const query = { labelSelector, fieldSelector, limit, continue: token };
    const raw = await this.#transport.request({ method: 'GET', path, query, ...call });
    if (!isRawList(raw)) throw new TypeError(`The API server's answer is not a list of ${resource.plural}.`);
    return {
      metadata: raw.metadata ?? {},
      items: (raw.items ?? []).map((item) => decode(resource, item)),
    };
  }

  /** Yields the objects of all pages. */
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
   * Yields events until the server ends the watch. Throws KubeError for a refusal, an ERROR event (410 Expired:
   * list again) or a broken connection.
   */
  async *watch<T extends KubeObject>(
    resource: KubeResource<T>,
    options: WatchOptions,
  ): AsyncGenerator<WatchEvent<T>> {
    const { namespace, signal, onOpen, ...query } = options;
    const path = resourcePath(resource, { namespace });
    const lines = this.#transport.streamLines({
      method: 'GET',
      path,
      query: { watch: true, allowWatchBookmarks: true, ...query },
      ...{ signal, onOpen },
    });
    for await (const line of lines) yield readWatchEvent(resource, line);
  }

  /** The last lines of a container's log. `previous`: of its run before the last restart. */
  async podLog(
    { namespace = '', name }: ObjectRef,
    { signal, ...query }: { container: string; previous: boolean; tailLines: number; signal?: AbortSignal },
  ): Promise<string> {
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}/log`;
    const lines: string[] = [];
    const limitBytes = MAX_LOG_BYTES;
    for await (const line of this.#transport.streamLines({
      ...{ method: 'GET', path, query: { ...query, limitBytes } },
      ...(signal === undefined ? {} : { signal }),
    }))
      lines.push(line);
    return lines.join('\n');
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

  /** PUT. With `metadata.resourceVersion` the server refuses the write (409) if the object has changed since. */
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

  /** JSON merge patch (RFC 7396). `metadata.resourceVersion` and `metadata.uid` in the patch guard the write (409). */
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

  /** Server-side apply. `object` has every field that `fieldManager` owns: the server removes those left out. */
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

  /** Returns false if the object did not exist. Throws KubeError 409 if `uid` or `resourceVersion` does not match. */
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

/** Sets apiVersion and kind, which items of built-in lists lack. */
function decode<T extends KubeObject>(resource: KubeResource<T>, raw: unknown): T {
  if (typeof raw !== 'object' || raw === null || !('metadata' in raw)) {
    throw new TypeError(`The API server's answer is not a ${resource.kind}.`);
  }
  const object = trusted<T>({ ...raw, apiVersion: resource.apiVersion, kind: resource.kind });
  return resource.transform === undefined ? object : resource.transform(object);
}

/** The server has validated the object against its own schema. */
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
