// Jobs that are gone and not reported yet: how many are kept, for how long, and when nothing keeps them any more.
import { describe, expect, it } from 'vitest';
import { GoneJobs, MAX_GONE, MAX_GONE_OF_WORKLOAD } from '../../../src/operator/workloads/gone-jobs.ts';
import { at, job, view } from './job-views.ts';

const HOUR_MS = 3_600_000;
const gone = (uid: string) => view(job({ uid, startTime: at(0), completed: at(9) }), [], true);
const keep = (jobs: GoneJobs, uid: string, owner: string, nowMs = 0) =>
  jobs.keep(gone(uid), [`owner/${owner}`, `own/${uid}`], nowMs);
const uidsAt = (jobs: GoneJobs, place: string, monitor = 'monitor') =>
  jobs.at([place], monitor).map(({ job: { metadata } }) => metadata.uid);

describe('Jobs that are gone', () => {
  it('are found by their workload and by themselves until each of their Monitors has reported them', () => {
    const jobs = new GoneJobs();
    keep(jobs, 'a', 'backup');
    expect([uidsAt(jobs, 'owner/backup'), uidsAt(jobs, 'own/a')]).toEqual([['a'], ['a']]);
    expect(jobs.at(['owner/backup', 'own/a'], 'monitor')).toHaveLength(1);
    jobs.settle([gone('a')], 'monitor', ['monitor', 'other']);
    expect([uidsAt(jobs, 'owner/backup'), uidsAt(jobs, 'owner/backup', 'other')]).toEqual([[], ['a']]);
    jobs.settle([gone('a')], 'other', ['monitor', 'other']);
    expect([jobs.size, uidsAt(jobs, 'own/a', 'third')]).toEqual([0, []]);
  });

  it('of one workload are the newest ones, in every place', () => {
    const jobs = new GoneJobs();
    for (let i = 0; i < 1000; i += 1) keep(jobs, `job-${i}`, 'backup');
    expect(jobs.size).toBe(MAX_GONE_OF_WORKLOAD);
    expect(uidsAt(jobs, 'owner/backup').at(-1)).toBe('job-999');
    expect([uidsAt(jobs, 'own/job-0'), uidsAt(jobs, 'own/job-999')]).toEqual([[], ['job-999']]);
  });

  it('of thousands of workloads are bounded in all, and the newest ones are there', () => {
    const jobs = new GoneJobs();
    for (let i = 0; i < MAX_GONE + 100; i += 1) keep(jobs, `job-${i}`, `cron-${i}`);
    expect(jobs.size).toBe(MAX_GONE);
    expect([uidsAt(jobs, 'owner/cron-99'), uidsAt(jobs, 'owner/cron-100')]).toEqual([[], ['job-100']]);
  });

  it.each([
    ['a standby', false, HOUR_MS / 6],
    ['the leader', true, 24 * HOUR_MS],
  ])('of %s are forgotten after a time', (_who, isLeading, keptMs) => {
    const jobs = new GoneJobs();
    if (isLeading) jobs.lead();
    keep(jobs, 'old', 'a');
    keep(jobs, 'new', 'b', keptMs - 1);
    expect(jobs.size).toBe(2);
    keep(jobs, 'next', 'c', keptMs);
    expect([jobs.size, uidsAt(jobs, 'own/old')]).toEqual([2, []]);
  });
});
