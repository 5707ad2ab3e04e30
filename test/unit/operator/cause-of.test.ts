// What keeps the Jobs of a workload from running, by what the cluster shows of Jobs, pods, nodes, quotas and namespaces.
import { describe, expect, it } from 'vitest';
import { JOBS, type JobObject, PODS, type PodObject } from '../../../src/operator/workloads/batch-objects.ts';
import type { QuotaObject } from '../../../src/operator/workloads/causes/cause-objects.ts';
import { type CauseFacts, causeOf, type JobPods } from '../../../src/operator/workloads/causes/cause-of.ts';
import { at, job, START_MS } from './job-views.ts';

const NOW_MS = START_MS + 600_000;
const factsOf = (jobs: JobPods[], more: Partial<CauseFacts> = {}): CauseFacts => ({
  ...{ namespace: 'shop', isLeaving: false, jobs, quotas: [], nowMs: NOW_MS },
  isNodeDown: (name) => name.startsWith('down'),
  ...more,
});
const withPods = (one: JobObject, pods: PodObject[] = [], gonePods: PodObject[] = []): JobPods => ({
  ...{ job: one, pods, gonePods },
});

interface PodFacts {
  node?: string;
  phase?: string;
  waiting?: string;
  image?: string;
  exitCode?: number;
  isLeaving?: boolean;
}

/** As the cache keeps it. */
function pod({ node, phase = 'Running', waiting, image, exitCode, isLeaving }: PodFacts): PodObject {
  const terminated = exitCode === undefined ? undefined : { exitCode, finishedAt: at(90) };
  const state =
    waiting === undefined ? { running: { startedAt: at(5) }, terminated } : { waiting: { reason: waiting } };
  return {
    metadata: {
      name: 'backup-pod',
      namespace: 'shop',
      ...(isLeaving ? { deletionTimestamp: at(60) } : {}),
    },
    spec: node === undefined ? {} : { nodeName: node },
    status: {
      phase,
      containerStatuses: [
        {
          name: 'main',
          state: terminated === undefined ? state : { terminated },
          ...(image ? { image } : {}),
        },
      ],
    },
  };
}
const running = job({ startTime: at(0) });
const active = (): JobObject => ({ ...running, status: { ...running.status, active: 1 } });
const objectOf = (facts: CauseFacts) => {
  const { cause } = causeOf(facts);
  return cause && `${cause.cause} ${cause.object}`;
};

describe('a node that is not ready', () => {
  it('is the cause of a Job with a pod on it, and of none whose pods are elsewhere', () => {
    expect(objectOf(factsOf([withPods(active(), [pod({ node: 'down-1' })])]))).toBe('node_not_ready down-1');
    expect(objectOf(factsOf([withPods(active(), [pod({ node: 'up' })])]))).toBeUndefined();
    expect(objectOf(factsOf([withPods(active(), [pod({})])]))).toBeUndefined();
  });

  it('is none of a pod that has ended', () => {
    for (const phase of ['Succeeded', 'Failed'])
      expect(objectOf(factsOf([withPods(active(), [pod({ node: 'down-1', phase })])]))).toBeUndefined();
  });

  it('is none any more where another pod has taken the place of the one that is being deleted', () => {
    const stuck = pod({ node: 'down-1', isLeaving: true });
    expect(objectOf(factsOf([withPods(active(), [stuck])]))).toBe('node_not_ready down-1');
    expect(objectOf(factsOf([withPods(active(), [stuck, pod({ node: 'up' })])]))).toBeUndefined();
  });

  it('is one also where a second pod of the Job runs elsewhere', () => {
    const pods = [pod({ node: 'up' }), pod({ node: 'down-1' })];
    expect(objectOf(factsOf([withPods(active(), pods)]))).toBe('node_not_ready down-1');
  });

  it('is the cause of a Job that has failed with it, until the alert of the failure is decided', () => {
    const failed = job({ startTime: at(0), failed: { at: at(500), reason: 'BackoffLimitExceeded' } });
    const lost = [pod({ node: 'down-1', phase: 'Failed' })];
    const facts = factsOf([withPods(failed, [], lost)]);
    expect(causeOf(facts)).toMatchObject({ cause: { object: 'down-1' }, dueInMs: 20_000 });
    expect(objectOf({ ...facts, nowMs: NOW_MS + 20_000 })).toBeUndefined();
    expect(objectOf(factsOf([withPods(failed, lost)]))).toBe('node_not_ready down-1');
  });

  it('is no cause of a Job that has failed by itself, or has completed', () => {
    const failed = job({ startTime: at(0), failed: { at: at(550), reason: 'BackoffLimitExceeded' } });
    const ended = [pod({ node: 'down-1', phase: 'Failed', exitCode: 1 })];
    expect(objectOf(factsOf([withPods(failed, ended)]))).toBeUndefined();
    const completed = job({ startTime: at(0), completed: at(550) });
    expect(objectOf(factsOf([withPods(completed, [pod({ node: 'down-1' })])]))).toBeUndefined();
  });

  it('that has the first name is the one, of several', () => {
    const jobs = [withPods(active(), [pod({ node: 'down-2' }), pod({ node: 'down-1' })])];
    expect(objectOf(factsOf(jobs))).toBe('node_not_ready down-1');
  });
});

describe('an image that cannot be pulled', () => {
  const waits = (waiting: string, more: PodFacts = {}) =>
    withPods(active(), [pod({ node: 'up', phase: 'Pending', waiting, image: 'registry.test/a:1', ...more })]);

  it.each(['ErrImagePull', 'ImagePullBackOff', 'InvalidImageName', 'ErrImageNeverPull'])(
    'is the cause of a Job whose container waits with %s',
    (reason) => {
      expect(objectOf(factsOf([waits(reason)]))).toBe('image_cannot_be_pulled registry.test/a:1');
    },
  );

  it('is none of a container that waits for something else, and of no pod that is being deleted', () => {
    expect(objectOf(factsOf([waits('CreateContainerConfigError')]))).toBeUndefined();
    expect(objectOf(factsOf([waits('ErrImagePull', { isLeaving: true })]))).toBeUndefined();
  });

  it('that is no name at all has one that the API takes', () => {
    const image = ` no name\n${'x'.repeat(600)}`;
    const { cause } = causeOf(factsOf([waits('InvalidImageName', { image })]));
    expect(cause?.object).toMatch(/^\?no\?name\?x+$/);
    expect(cause?.object).toHaveLength(512);
  });

  it('is named as the pod names it, also of an init container, and is kept of no other container', () => {
    const kept = PODS.transform?.({
      metadata: { name: 'backup-pod', namespace: 'shop' },
      spec: {
        nodeName: 'up',
        containers: [{ name: 'main', image: 'backup:1' }],
        initContainers: [{ name: 'fetch', image: 'fetch:2' }],
      },
      status: {
        phase: 'Pending',
        containerStatuses: [{ name: 'main', state: { waiting: { reason: 'PodInitializing' } } }],
        initContainerStatuses: [
          {
            name: 'fetch',
            state: { waiting: { reason: 'ErrImagePull' } },
            image: 'docker.io/library/fetch:2',
          },
        ],
      },
    });
    expect(objectOf(factsOf([withPods(active(), kept ? [kept] : [])]))).toBe(
      'image_cannot_be_pulled fetch:2',
    );
    expect(kept?.spec).toEqual({ nodeName: 'up' });
    expect(kept?.status?.containerStatuses?.[0]?.image).toBeUndefined();
  });
});

describe('a quota that is exhausted', () => {
  const quota = (
    hard: Record<string, string>,
    used: Record<string, string>,
    name = 'small',
  ): QuotaObject => ({
    metadata: { name, namespace: 'shop' },
    status: { hard, used },
  });
  const full = quota({ pods: '2' }, { pods: '2' });
  const jobOf = (resources: object, more: object = {}): JobObject => {
    const template = { spec: { containers: [{ resources }] } };
    const raw = { ...running, spec: { template, ...more } };
    return JOBS.transform?.(raw) ?? raw;
  };
  const hindered = (resources: object, quotas: QuotaObject[], more: object = {}) =>
    objectOf(factsOf([withPods(jobOf(resources, more))], { quotas }));

  it('is the cause of a Job that has begun and has no pod', () => {
    expect(hindered({}, [full])).toBe('quota_exceeded shop/small');
    expect(hindered({}, [quota({ 'count/pods': '2' }, { 'count/pods': '2' })])).toBe(
      'quota_exceeded shop/small',
    );
    expect(hindered({}, [quota({ pods: '2' }, { pods: '1' })])).toBeUndefined();
    expect(hindered({}, [])).toBeUndefined();
  });

  it('is looked for five seconds after the Job began, or after its last pod ended', () => {
    const facts = factsOf([withPods(jobOf({}))], { quotas: [full], nowMs: START_MS + 4000 });
    expect(causeOf(facts)).toEqual({ wantsPods: true, dueInMs: 1000 });
    const ended = [pod({ phase: 'Failed', exitCode: 1 })];
    const retried = factsOf([withPods(jobOf({}), ended)], { quotas: [full], nowMs: START_MS + 92_000 });
    expect(causeOf(retried)).toEqual({ wantsPods: true, dueInMs: 3000 });
    expect(objectOf({ ...retried, nowMs: START_MS + 95_000 })).toBe('quota_exceeded shop/small');
  });

  it('is no cause of a Job that has a pod, or wants none', () => {
    const some = [withPods(active(), [pod({ node: 'up' })])];
    expect(causeOf(factsOf(some, { quotas: [full] }))).toEqual({ wantsPods: false });
    for (const spec of [{ suspend: true }, { parallelism: 0 }])
      expect(hindered({}, [full], spec)).toBeUndefined();
    const unseen = { ...jobOf({}), status: {} };
    const leaving = { ...jobOf({}), metadata: { ...running.metadata, deletionTimestamp: at(9) } };
    const failing = job({
      startTime: at(0),
      conditions: [{ type: 'FailureTarget', status: 'True' }],
    });
    for (const one of [unseen, leaving, failing, active(), job({ startTime: at(0), completed: at(9) })])
      expect(objectOf(factsOf([withPods(one)], { quotas: [full] }))).toBeUndefined();
  });

  it('leaves less than one pod of the Job asks for', () => {
    const cpu = (used: string) => [quota({ 'requests.cpu': '1' }, { 'requests.cpu': used })];
    const requests = { cpu: '300m' };
    expect(hindered({ requests }, cpu('700m'))).toBeUndefined();
    expect(hindered({ requests }, cpu('701m'))).toBe('quota_exceeded shop/small');
    expect(hindered({ limits: { cpu: '300m' } }, cpu('0.701'))).toBe('quota_exceeded shop/small');
    const limit = [quota({ 'limits.memory': '1Gi' }, { 'limits.memory': '1000Mi' })];
    expect(hindered({ limits: { memory: '24Mi' } }, limit)).toBeUndefined();
    expect(hindered({ limits: { memory: '25Mi' } }, limit)).toBe('quota_exceeded shop/small');
    const plain = [quota({ memory: '1Gi' }, { memory: '1000Mi' })];
    expect(hindered({ requests: { memory: '25Mi' } }, plain)).toBe('quota_exceeded shop/small');
  });

  it('of what the template does not state is one that has nothing left', () => {
    const cpu = (used: string) => [quota({ cpu: '1' }, { cpu: used })];
    expect(hindered({}, cpu('999m'))).toBeUndefined();
    expect(hindered({}, cpu('1'))).toBe('quota_exceeded shop/small');
  });

  it('of what no pod of the Job asks for is none', () => {
    const others = {
      ...{ 'requests.nvidia.com/gpu': '0', services: '1', 'requests.storage': '0', 'count/jobs.batch': '1' },
    };
    expect(hindered({}, [quota(others, others)])).toBeUndefined();
    const gpus = [quota({ 'requests.nvidia.com/gpu': '1' }, { 'requests.nvidia.com/gpu': '1' })];
    expect(hindered({ limits: { 'nvidia.com/gpu': '1' } }, gpus)).toBe('quota_exceeded shop/small');
  });

  it('with scopes counts for some pods only, and is left out', () => {
    expect(hindered({}, [{ ...full, spec: { scopes: ['BestEffort'] } }])).toBeUndefined();
    expect(hindered({}, [{ ...full, spec: { scopeSelector: {} } }])).toBeUndefined();
  });
});

describe('of several causes', () => {
  const quotas: QuotaObject[] = [
    { metadata: { name: 'small', namespace: 'shop' }, status: { hard: { pods: '1' }, used: { pods: '1' } } },
  ];
  const image = withPods(active(), [pod({ node: 'up', waiting: 'ErrImagePull', image: 'a:1' })]);
  const node = withPods(active(), [pod({ node: 'down-1' })]);
  const all = [image, withPods(job({ startTime: at(0) })), node];

  it('the one that explains the others counts', () => {
    const left = (jobs: JobPods[], isLeaving = false) => causeOf(factsOf(jobs, { quotas, isLeaving })).cause;
    expect(left(all, true)).toEqual({ cause: 'namespace_terminating', object: 'shop' });
    expect(left(all)).toEqual({ cause: 'node_not_ready', object: 'down-1' });
    expect(left(all.slice(0, 2))).toEqual({ cause: 'quota_exceeded', object: 'shop/small' });
    expect(left(all.slice(0, 1))).toEqual({ cause: 'image_cannot_be_pulled', object: 'a:1' });
  });
});

describe('a Job that is stuck', () => {
  const stuck = withPods(active(), [pod({ node: 'down-1', waiting: 'ErrImagePull', image: 'a:1' })]);

  it('is no cause any more once a Job that began after it has succeeded', () => {
    const later = withPods(job({ uid: 'later', startTime: at(60), completed: at(90) }));
    expect(objectOf(factsOf([stuck]))).toBe('node_not_ready down-1');
    expect(objectOf(factsOf([stuck, later]))).toBeUndefined();
  });

  it('is none where the CronJob alone still knows of a later success', () => {
    expect(objectOf(factsOf([stuck], { lastSuccessfulTime: at(90) }))).toBeUndefined();
    expect(objectOf(factsOf([stuck], { lastSuccessfulTime: at(-90) }))).toBe('node_not_ready down-1');
  });

  it('is one beside a success that began before it', () => {
    const earlier = withPods(job({ uid: 'earlier', startTime: at(-60), completed: at(90) }));
    expect(objectOf(factsOf([stuck, earlier], { lastSuccessfulTime: at(90) }))).toBe('node_not_ready down-1');
  });
});
