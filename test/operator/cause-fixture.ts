// Nodes and quotas as the controllers of a cluster write them, and what an operator tells the API of causes.
import { RestClient } from '../../src/client/rest-client.ts';
import type { KubeResource } from '../../src/kube/kube-object.ts';
import { waitFor } from '../support/wait-for.ts';
import { cronJobRef, type JobFixture, WHOLE_JOBS, type WholeObject } from './job-fixture.ts';
import type { OperatorFixture, OperatorOptions } from './operator-fixture.ts';

const NODES: KubeResource<WholeObject> = {
  ...{ apiVersion: 'v1', kind: 'Node', plural: 'nodes', namespaced: false },
};
const QUOTAS: KubeResource<WholeObject> = {
  ...{ apiVersion: 'v1', kind: 'ResourceQuota', plural: 'resourcequotas', namespaced: true },
};

/** What the API took, in order: the causes as `cause object: monitors`, or a sign of life. */
export type Told = { at: 'causes'; causes: Record<string, string[]> } | { at: 'sign' };

export class ToldCalls {
  readonly all: Told[] = [];

  /** For `startOperator`. */
  get clients(): Pick<OperatorOptions, 'makeClient'> {
    return { makeClient: (options) => new TellingClient(options, this.all) };
  }

  get causes(): Record<string, string[]>[] {
    return this.all.flatMap((one) => (one.at === 'causes' ? [one.causes] : []));
  }

  get signs(): number {
    return this.all.filter(({ at }) => at === 'sign').length;
  }

  /** Resolves when the last state that the API took has these causes with so many monitors, and no others. */
  async become(wanted: Record<string, number>): Promise<Record<string, string[]>> {
    const counts = () =>
      Object.fromEntries(
        Object.entries(this.causes.at(-1) ?? {}).map(([name, monitors]) => [name, monitors.length]),
      );
    const isSo = () => this.causes.length > 0 && JSON.stringify(counts()) === JSON.stringify(wanted);
    await waitFor(isSo, { what: `the causes ${JSON.stringify(wanted)}` }).catch((error) => {
      throw new Error(`${error.message}: ${JSON.stringify(this.causes)}`);
    });
    return this.causes.at(-1) ?? {};
  }

  /** Resolves when so many more signs of life came. */
  async moreSigns(count = 1): Promise<void> {
    const before = this.signs;
    await waitFor(() => this.signs >= before + count, { what: 'a sign of life' });
  }
}

class TellingClient extends RestClient {
  readonly #told: Told[];

  constructor(options: ConstructorParameters<typeof RestClient>[0], told: Told[]) {
    super(options);
    this.#told = told;
  }

  override call: RestClient['call'] = async (operation, request, options) => {
    const answer = await super.call(operation, request, options);
    if (operation === 'signOperator') this.#told.push({ at: 'sign' });
    if (operation === 'setOperatorCauses') {
      const { body } = request as { body: { causes: SeenCause[] } };
      this.#told.push({ at: 'causes', causes: Object.fromEntries(body.causes.map(entryOf)) });
    }
    return answer;
  };
}

interface SeenCause {
  cause: string;
  object: string;
  monitors: { monitorId: string }[];
}

const entryOf = ({ cause, object, monitors }: SeenCause): [string, string[]] => [
  `${cause} ${object}`,
  monitors.map(({ monitorId }) => monitorId),
];

export interface CauseFixture {
  /** Its whole name: nodes have no namespace. */
  createNode(name: string, ready?: string): Promise<string>;
  setNode(name: string, ready: string, more?: object): Promise<void>;
  deleteNode(name: string): Promise<void>;
  /** A quota of the namespace as its controller has counted it. */
  setQuota(name: string, status: { hard: object; used: object }): Promise<void>;
  deleteQuota(name: string): Promise<void>;
  /** A CronJob, its Monitor, and a Job of it that has begun. Returns the Job. */
  begin(name: string, spec?: object): Promise<WholeObject>;
}

export function causeFixture(fixture: OperatorFixture, jobs: JobFixture): CauseFixture {
  const { namespace } = fixture;
  const { client } = fixture.kube;
  const setStatus = (name: string, status: object) =>
    client.mergePatch(NODES, { name }, { status }, { subresource: 'status' });

  const all: CauseFixture = {
    async createNode(short, ready = 'True') {
      const name = `${short}-${namespace}`;
      await client.create(NODES, { metadata: { name }, spec: {} });
      await all.setNode(name, ready);
      return name;
    },
    async setNode(name, ready, more = {}) {
      const common = { reason: 'Test', message: '', lastTransitionTime: new Date().toISOString() };
      const conditions = [
        { type: 'DiskPressure', status: 'False', ...common },
        { type: 'Ready', status: ready, ...common },
      ];
      await setStatus(name, { conditions, ...more });
    },
    deleteNode: async (name) => void (await client.delete(NODES, { name })),
    async setQuota(name, status) {
      const ref = { namespace, name };
      const found = await client.find(QUOTAS, ref);
      if (found === undefined) await client.create(QUOTAS, { metadata: ref, spec: { hard: status.hard } });
      await client.mergePatch(QUOTAS, ref, { status }, { subresource: 'status' });
    },
    deleteQuota: async (name) => void (await client.delete(QUOTAS, { namespace, name })),
    async begin(name, spec = {}) {
      const cronJob = await jobs.createCronJob(name);
      await fixture.createMonitor(name, {
        ...{ callback: { kind: 'disabled' }, workloadRef: cronJobRef(name) },
        ...spec,
      });
      await jobs.createJob(`${name}-1`, cronJob);
      const status = { startTime: new Date().toISOString(), active: 0, ready: 0 };
      const ref = { namespace, name: `${name}-1` };
      return await client.mergePatch(WHOLE_JOBS, ref, { status }, { subresource: 'status' });
    },
  };
  return all;
}
