// What the Jobs of a CronJob ask for: which beats, in which order, with which words.
import { describe, expect, it } from 'vitest';
import type { ReportedRuns, RunFacts } from '../../../src/operator/workloads/run-facts.ts';
import { runsOf } from '../../../src/operator/workloads/runs-of.ts';
import {
  at,
  cronJob,
  ended,
  factsOf,
  job,
  NOTHING,
  pod,
  running,
  START_MS,
  said,
  view,
  waiting,
} from './job-views.ts';

const NOW = at(3600);
const open: ReportedRuns = { ...NOTHING, runs: [{ uid: 'job', started: at(0) }] };

describe('a Job that runs', () => {
  it('starts when its first container runs, and not while its pod waits', () => {
    const waits = runsOf(factsOf([view(job({ startTime: at(0) }), [waiting('ContainerCreating')])]));
    expect(waits.steps).toEqual([]);
    const runs = runsOf(factsOf([view(job({ startTime: at(0) }), [running(at(20)), running(at(8))])]));
    expect(said(runs)).toEqual([`start job ${at(8)}`]);
    expect(runs.final.runs).toEqual([{ uid: 'job', started: at(8) }]);
  });

  it('is reported once: what was reported asks for nothing', () => {
    const jobs = [view(job({ startTime: at(0), completed: at(90) }), [ended(0, at(5), at(88))])];
    const first = runsOf(factsOf(jobs));
    expect(said(first)).toEqual([`start job ${at(5)}`, `success job ${at(90)}`]);
    expect(runsOf(factsOf(jobs, { reported: first.final })).steps).toEqual([]);
    const [start] = first.steps;
    const rest = runsOf(factsOf(jobs, { reported: start?.after ?? NOTHING }));
    expect(said(rest)).toEqual([`success job ${at(90)}`]);
  });

  it('has the start time of the Job where no pod is left', () => {
    expect(said(runsOf(factsOf([view(job({ startTime: at(1), completed: at(9) }))])))).toEqual([
      `start job ${at(1)}`,
      `success job ${at(9)}`,
    ]);
  });

  it('does not fail with a pod that is tried again, and fails with the Job', () => {
    const failedPod = ended(137, at(5), at(9), 'OOMKilled');
    const retried = runsOf(factsOf([view(job({ startTime: at(0) }), [failedPod, running(at(20))])]));
    expect(said(retried)).toEqual([`start job ${at(5)}`]);
    const failed = { at: at(60), reason: 'BackoffLimitExceeded' };
    const plan = runsOf(
      factsOf([view(job({ startTime: at(0), failed }), [failedPod])], { reported: retried.final }),
    );
    expect(plan.steps.map(({ beat }) => beat.body)).toEqual([
      {
        ...{ status: 'fail', runId: 'job', observedAt: at(60), exitStatus: 137 },
        message:
          'Job backup-job failed: BackoffLimitExceeded. Container main of pod backup-pod: OOMKilled, exit code 137.',
      },
    ]);
  });

  it('says of a pod-failure policy which rule it was, and of an evicted pod that it was evicted', () => {
    const failed = {
      at: at(60),
      reason: 'PodFailurePolicy',
      message: 'Container main failed with exit code 42',
    };
    const one = pod(
      { terminated: { exitCode: 42, finishedAt: at(50), reason: 'Error' } },
      { reason: 'Evicted' },
    );
    const { steps } = runsOf(factsOf([view(job({ startTime: at(0), failed }), [one])], { reported: open }));
    expect(steps[0]?.beat.body.message).toBe(
      'Job backup-job failed: PodFailurePolicy. Container main failed with exit code 42. Pod: Evicted. Container main of pod backup-pod: exit code 42.',
    );
  });

  it('finds its terminal condition by type, behind others that are no end', () => {
    const early = { lastTransitionTime: at(50), status: 'True' };
    const conditions = [
      { type: 'Suspended', status: 'False', lastTransitionTime: at(1) },
      { type: 'FailureTarget', reason: 'BackoffLimitExceeded', ...early },
    ];
    const before = runsOf(factsOf([view(job({ startTime: at(0), conditions }), [running(at(2))])]));
    expect(said(before)).toEqual([`start job ${at(2)}`]);
    const target = [{ type: 'SuccessCriteriaMet', ...early }];
    const met = runsOf(
      factsOf([view(job({ startTime: at(0), conditions: target }), [])], { reported: open }),
    );
    expect(met.steps).toEqual([]);
    const isNot = [{ type: 'Failed', status: 'False', lastTransitionTime: at(3) }];
    const done = job({ startTime: at(0), conditions: [...target, ...isNot], completed: at(60) });
    expect(said(runsOf(factsOf([view(done)], { reported: open })))).toEqual([`success job ${at(60)}`]);
  });

  it('that is suspended is no run that goes on; when it goes on it starts again', () => {
    const suspended = view(job({ suspend: true }), [ended(143, at(0), at(30))]);
    expect(runsOf(factsOf([suspended])).steps).toEqual([]);
    const plan = runsOf(factsOf([suspended], { reported: open }));
    expect(said(plan)).toEqual([`cancel job ${NOW}`]);
    expect(plan.final.runs).toEqual([{ uid: 'job', pauses: 1 }]);
    expect(runsOf(factsOf([suspended], { reported: plan.final })).steps).toEqual([]);
    // The controller has not taken note yet: the start time is that of before.
    const resumed = job({ startTime: at(0), conditions: [{ type: 'Suspended', status: 'True' }] });
    const early = view(resumed, [ended(143, at(0), at(30))]);
    expect(runsOf(factsOf([early], { reported: plan.final })).steps).toEqual([]);
    const pods = [ended(143, at(0), at(30)), running(at(105))];
    const goesOn = runsOf(factsOf([view(job({ startTime: at(100) }), pods)], { reported: plan.final }));
    expect(said(goesOn)).toEqual([`start job ${at(105)}`]);
    expect(goesOn.steps[0]?.beat.idempotencyKey).not.toBe('job-start');
    const completed = view(job({ startTime: at(100), completed: at(200) }), pods);
    expect(said(runsOf(factsOf([completed], { reported: goesOn.final })))).toEqual([
      `success job ${at(200)}`,
    ]);
  });
});

describe('a Job that cannot start', () => {
  it.each(['ImagePullBackOff', 'InvalidImageName', 'CreateContainerConfigError'])(
    'fails once with %s',
    (reason) => {
      const jobs = [view(job({ startTime: at(0) }), [waiting(reason)])];
      const plan = runsOf(factsOf(jobs));
      expect(plan.steps.map(({ beat }) => beat.body)).toMatchObject([
        {
          status: 'fail',
          message: `Job backup-job cannot start: ${reason}. Container main of pod backup-pod waits.`,
        },
      ]);
      expect(runsOf(factsOf(jobs, { reported: plan.final })).steps).toEqual([]);
      // Its deadline ends it without a second fail.
      const failed = { at: at(600), reason: 'DeadlineExceeded' };
      const over = runsOf(factsOf([view(job({ startTime: at(0), failed }))], { reported: plan.final }));
      expect(over.steps).toEqual([]);
      // It runs after all.
      const runs = [view(job({ startTime: at(0), completed: at(90) }), [ended(0, at(60), at(89))])];
      expect(said(runsOf(factsOf(runs, { reported: plan.final })))).toEqual([
        `start job ${at(60)}`,
        `success job ${at(90)}`,
      ]);
    },
  );

  it('is waited for with ErrImagePull, and not judged once a container has run', () => {
    expect(runsOf(factsOf([view(job(), [waiting('ErrImagePull')])])).steps).toEqual([]);
    const later = view(job({ startTime: at(0) }), [ended(1, at(1), at(2)), waiting('ImagePullBackOff')]);
    expect(said(runsOf(factsOf([later])))).toEqual([`start job ${at(1)}`]);
  });
});

describe('a Job that is gone', () => {
  it('while it ran is a cancel, and one that never started is nothing', () => {
    expect(said(runsOf(factsOf([view(job({ startTime: at(0) }), [running(at(1))], true)])))).toEqual([
      `start job ${at(1)}`,
      `cancel job ${NOW}`,
    ]);
    expect(runsOf(factsOf([view(job(), [waiting('ContainerCreating')], true)])).steps).toEqual([]);
  });

  it('right after its end has its end', () => {
    const last = view(job({ startTime: at(0), completed: at(20) }), [], true);
    const plan = runsOf(factsOf([last], { reported: open }));
    expect(said(plan)).toEqual([`success job ${at(20)}`]);
    // Nothing is kept of it once it is not there any more.
    expect(runsOf(factsOf([], { reported: plan.final })).final.runs).toEqual([]);
  });

  it('without anybody having seen its end is a cancel that says so, and nothing is invented', () => {
    const plan = runsOf(factsOf([], { reported: open }));
    expect(said(plan)).toEqual([`cancel job ${NOW}`]);
    expect(plan.steps[0]?.beat.body.message).toContain('The end of this run was not seen');
    expect(runsOf(factsOf([], { reported: plan.final })).steps).toEqual([]);
  });

  it('and completed while nobody looked is a success of the time that the CronJob says', () => {
    const status = { lastScheduleTime: at(3000), lastSuccessfulTime: at(3060) };
    const facts = { cronJob: cronJob({ status }), reported: open };
    const plan = runsOf(factsOf([], { ...facts, nowMs: START_MS + 3_200_000 }));
    const runId = `cron-${(START_MS + 3_060_000) / 1000}`;
    expect(said(plan)).toEqual([`success ${runId} ${at(3060)}`, `cancel job ${at(3200)}`]);
    expect(plan.final).toMatchObject({ lastSuccessfulTime: at(3060), lastScheduleTime: at(3000) });
    expect(runsOf(factsOf([], { ...facts, reported: plan.final })).steps).toEqual([]);
  });

  it('may still come for a minute: until then the time of the CronJob says nothing', () => {
    const facts = { cronJob: cronJob({ status: { lastSuccessfulTime: at(3590) } }) };
    expect(runsOf(factsOf([], facts))).toMatchObject({ steps: [], dueInMs: 50_000 });
    const seen = view(job({ startTime: at(3000), completed: at(3590) }), [], true);
    const plan = runsOf(factsOf([seen], facts));
    expect(said(plan)).toEqual([`start job ${at(3000)}`, `success job ${at(3590)}`]);
    const after = runsOf(factsOf([], { ...facts, reported: plan.final, nowMs: START_MS + 7_200_000 }));
    expect(after).toMatchObject({ steps: [] });
    expect(after.dueInMs).toBeUndefined();
  });

  it.each<[string, Partial<RunFacts>, object]>([
    ['namespace', { namespaceLeaving: at(100) }, {}],
    ['Job', {}, { deletionTimestamp: at(100) }],
    ['CronJob', { cronJob: cronJob({ metadata: { deletionTimestamp: at(100) } }) }, {}],
  ])('with its %s has not failed, although its pods were killed', (_what, more, metadata) => {
    const failed = { at: at(101), reason: 'BackoffLimitExceeded' };
    const killed = view(job({ startTime: at(0), failed, ...metadata }), [ended(137, at(0), at(101))]);
    expect(said(runsOf(factsOf([killed], { ...more, reported: open })))).toEqual([`cancel job ${at(101)}`]);
    const before = { at: at(99), reason: 'BackoffLimitExceeded' };
    const own = view(job({ startTime: at(0), failed: before, ...metadata }));
    expect(said(runsOf(factsOf([own], { ...more, reported: open })))).toEqual([`fail job ${at(99)}`]);
  });
});

describe('a history', () => {
  it('of before the Monitor watched is not reported, but for what ran on', () => {
    const old = view(job({ uid: 'old', startTime: at(-900), completed: at(-700) }));
    const long = view(job({ uid: 'long', startTime: at(-900), completed: at(10) }));
    expect(said(runsOf(factsOf([old, long])))).toEqual([`start long ${at(-900)}`, `success long ${at(10)}`]);
  });

  it('of a CronJob that was made again under its name begins with it, and open runs still end', () => {
    const again = cronJob({ metadata: { uid: 'again', creationTimestamp: at(1000) } });
    const reported = { ...open, lastSuccessfulTime: at(-100) };
    const killed = view(job({ startTime: at(0) }), [], true);
    const first = view(job({ uid: 'first', startTime: at(1100), completed: at(1200) }));
    const plan = runsOf(factsOf([killed, first], { cronJob: again, reported }));
    expect(said(plan)).toEqual([`start first ${at(1100)}`, `success first ${at(1200)}`, `cancel job ${NOW}`]);
    expect(plan.final).toMatchObject({ uid: 'again', since: at(1000), lastSuccessfulTime: at(1200) });
  });

  it('of several Jobs is reported in the order in which things happened', () => {
    const a = view(job({ uid: 'a', startTime: at(0), completed: at(600) }));
    const b = view(
      job({ uid: 'b', startTime: at(300), failed: { at: at(400), reason: 'DeadlineExceeded' } }),
    );
    expect(said(runsOf(factsOf([b, a])))).toEqual([
      `start a ${at(0)}`,
      `start b ${at(300)}`,
      `cancel b ${at(400)}`,
      `success a ${at(600)}`,
    ]);
  });

  it('of a failure after which a run has succeeded opens nothing: it closes its run and says why it failed', () => {
    const failed = { at: at(60), reason: 'BackoffLimitExceeded' };
    const before = view(job({ uid: 'before', startTime: at(0), failed }), [
      ended(137, at(5), at(9), 'OOMKilled'),
    ]);
    const after = view(job({ uid: 'after', startTime: at(100), completed: at(200) }));
    const { steps } = runsOf(factsOf([before, after]));
    const cancel = steps.find(({ beat }) => beat.body.status === 'cancel')?.beat;
    expect(cancel).toEqual({
      // As the failure would have, which an operator that died may have sent.
      idempotencyKey: 'before-fail',
      body: {
        ...{ status: 'cancel', runId: 'before', observedAt: at(60) },
        message:
          'Job backup-before failed: BackoffLimitExceeded. Container main of pod backup-pod: OOMKilled, exit code 137. A later run has succeeded since.',
      },
    });
    const statuses = (views: Parameters<typeof factsOf>[0], more: Parameters<typeof factsOf>[1] = {}) =>
      runsOf(factsOf(views, more)).steps.map(({ beat }) => `${beat.body.status} ${beat.body.runId}`);
    // A success that was told before counts, and one that only the CronJob knows; one before the failure does not.
    const told = { reported: { ...NOTHING, lastSuccessfulTime: at(61) } };
    expect(statuses([before], told)).toEqual(['start before', 'cancel before']);
    const known = { cronJob: cronJob({ status: { lastSuccessfulTime: at(200) } }) };
    const runId = `cron-${START_MS / 1000 + 200}`;
    expect(statuses([before], known)).toEqual(['start before', 'cancel before', `success ${runId}`]);
    const first = view(job({ uid: 'first', startTime: at(0), completed: at(50) }));
    expect(statuses([first, before])).toEqual([
      'start first',
      'start before',
      'success first',
      'fail before',
    ]);
  });

  it('of a success that the CronJob alone knows ends no failure after it, told before or with it', () => {
    const failed = { at: at(300), reason: 'BackoffLimitExceeded' };
    const later = view(job({ uid: 'later', startTime: at(250), failed }));
    const known = { cronJob: cronJob({ status: { lastSuccessfulTime: at(200) } }) };
    const statuses = (reported: ReportedRuns) =>
      runsOf(factsOf([later], { ...known, reported })).steps.map(({ beat }) => beat.body.status);
    expect(statuses(NOTHING)).toEqual(['success', 'start', 'fail']);
    const told = { ...NOTHING, runs: [{ uid: 'later', started: at(250), ended: at(300) }] };
    expect(statuses(told)).toEqual([]);
    expect(runsOf(factsOf([later], { ...known, reported: told })).final.lastSuccessfulTime).toBe(at(200));
  });

  it('of hundreds of Jobs is kept small, and none of them is reported twice', () => {
    const views = Array.from({ length: 300 }, (_, i) =>
      view(job({ uid: `job-${i}`, startTime: at(i * 10), completed: at(i * 10 + 5) })),
    );
    let plan = runsOf(factsOf(views));
    const sent: string[] = [];
    // A pass sends a hundred beats at most, and asks for the next one.
    for (let pass = 0; pass < 6; pass += 1) {
      expect(plan.steps).toHaveLength(100);
      sent.push(...plan.steps.map(({ beat }) => beat.idempotencyKey));
      expect(plan.dueInMs).toBe(pass < 5 ? 0 : undefined);
      if (pass < 5) plan = runsOf(factsOf(views, { reported: plan.final }));
    }
    expect(new Set(sent).size).toBe(600);
    expect(plan.final.runs).toHaveLength(50);
    expect(runsOf(factsOf(views, { reported: plan.final })).steps).toEqual([]);
  });
});

describe('a failure', () => {
  const failed = { at: at(60), reason: 'BackoffLimitExceeded' };
  const fail = (pods: Parameters<typeof view>[1]) =>
    runsOf(factsOf([view(job({ startTime: at(0), failed }), pods)], { reported: open })).steps[0]?.beat.body;

  it('is that of the container that failed first, and not of what was killed beside it', () => {
    const status = (name: string, exitCode: number, finishedAt: string) => ({
      name,
      state: { terminated: { exitCode, finishedAt, startedAt: at(0) } },
    });
    const containers = [status('proxy', 137, at(40)), status('main', 3, at(10))];
    const one = { metadata: { name: 'pod' }, status: { containerStatuses: containers } };
    const sidecar = { ...one.status, initContainerStatuses: [status('logs', 143, at(41))] };
    expect(fail([{ ...one, status: sidecar }])).toMatchObject({ exitStatus: 3 });
    const early = {
      metadata: { name: 'pod' },
      status: { initContainerStatuses: [status('migrate', 2, at(5))] },
    };
    expect(fail([early])?.message).toContain('Container migrate of pod pod: exit code 2.');
  });

  it('of a pod that restarts its container is that of its last run, and of a great exit code has no exit status', () => {
    const lastState = { terminated: { exitCode: 1, reason: 'Error', finishedAt: at(30), startedAt: at(1) } };
    expect(fail([pod({ waiting: { reason: 'CrashLoopBackOff' } }, { lastState })])).toMatchObject({
      exitStatus: 1,
    });
    expect(fail([ended(-1_073_741_819, at(0), at(9))])?.exitStatus).toBeUndefined();
  });
});
