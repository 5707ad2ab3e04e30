// Each alert of the chart with samples of two hours after which it fires, and others after which it does not. The values are
// in promtool's notation: `5x120` is 5 for 120 minutes, `0+1x120` grows by one each minute.
import { NAMESPACE, RELEASE } from './helm.ts';

/** Series to their values. */
export type Samples = Readonly<Record<string, string>>;

export interface AlertCase {
  fires: Samples;
  /** The labels of the alert beside its name and severity. */
  labels?: Readonly<Record<string, string>>;
  /** Where labels or the value are in it. */
  summary?: string;
  /** Other samples after which it fires. */
  firesToo?: Samples;
  silent: Samples;
}

type Role = 'api' | 'sweeper' | 'operator';

/** A series as the ServiceMonitor of the release brings it. */
function of(role: Role, metric: string, labels: Record<string, string> = {}): string {
  const all = {
    release_namespace: NAMESPACE,
    job: `${RELEASE}-${role}-metrics`,
    pod: `${role}-1`,
    ...labels,
  };
  const texts = Object.entries(all).map(([name, value]) => `${name}="${value}"`);
  return `${metric}{${texts.join(',')}}`;
}

const always = (value: number) => `${value}x120`;
/** Nothing for 100 minutes, then one of them. */
const ONE_AT_LAST = '0x100 1x20';
/** It happened before the first sample. */
const ONE_LONG_AGO = always(1);

const down = (role: Role): AlertCase => ({
  fires: { [of(role, 'up')]: always(0), [of(role, 'up', { pod: `${role}-2` })]: always(0) },
  silent: { [of(role, 'up')]: always(0), [of(role, 'up', { pod: `${role}-2` })]: always(1) },
});

const requests = (status: string) => of('api', 'beatkeeper_api_requests_total', { status });
const attempts = (outcome: string) => of('sweeper', 'beatkeeper_deliveries_total', { outcome });
const lateness = (le: string) => of('sweeper', 'beatkeeper_detection_lateness_seconds_bucket', { le });
const failures = of('sweeper', 'beatkeeper_sweep_failures_total', { sweep: 'retention' });
const faults = of('sweeper', 'beatkeeper_monitor_faults_total');
const sealed = (kind: string) =>
  of('sweeper', 'beatkeeper_sealed_values', { key_id: 'k1', kind, configured: 'no' });
const check = (role: Role, name: string) => of(role, 'beatkeeper_health_check_failing', { check: name });
const stalled = (kind: string, reason: string, pod = 'operator-1') =>
  of('operator', 'beatkeeper_operator_stalled_objects', { kind, reason, pod });
const errors = of('operator', 'controller_runtime_reconcile_errors_total', { controller: 'monitor' });

/** A gauge that is too high, and one that is at its bound. */
function above(series: string, bound: number, words: Pick<AlertCase, 'labels' | 'summary'>): AlertCase {
  return { fires: { [series]: always(bound + 1) }, silent: { [series]: always(bound) }, ...words };
}

export const ALERT_CASES: Readonly<Record<string, AlertCase>> = {
  BeatkeeperApiDown: down('api'),
  BeatkeeperSweeperDown: down('sweeper'),
  BeatkeeperOperatorDown: down('operator'),
  BeatkeeperApiErrors: {
    fires: { [requests('200')]: '0+98x120', [requests('503')]: '0+2x120' },
    silent: { [requests('200')]: '0+99x120', [requests('404')]: '0+50x120', [requests('503')]: '0+1x120' },
  },
  BeatkeeperJurisdictionUnhealthy: {
    fires: { [check('api', 'database_eu')]: always(1) },
    firesToo: { [check('sweeper', 'database_eu')]: '0x100 1x20' },
    labels: { check: 'database_eu' },
    summary: 'The check database_eu of Beatkeeper fails',
    silent: {
      [check('api', 'database')]: always(1),
      [check('sweeper', 'sweep')]: always(1),
      [check('sweeper', 'schema_eu')]: '1x100 0x20',
    },
  },
  BeatkeeperApiFull: above(of('api', 'beatkeeper_api_requests_in_flight'), 5000, {
    labels: { pod: 'api-1' },
    summary: 'The pod api-1 of Beatkeeper runs 5001 calls at once',
  }),
  BeatkeeperApiWaitsForDatabase: above(of('api', 'beatkeeper_api_database_waiting'), 100, {
    labels: { pod: 'api-1' },
    summary: 'In the pod api-1 of Beatkeeper 101 calls wait for the database',
  }),
  BeatkeeperBeatsRefused: {
    fires: {
      [of('api', 'beatkeeper_beats_total', { outcome: 'temporarily_unavailable' })]: '0x117 3x3',
      [of('api', 'beatkeeper_beats_total', { outcome: 'accepted' })]: '0+1000x120',
    },
    silent: {
      [of('api', 'beatkeeper_beats_total', { outcome: 'temporarily_unavailable' })]: ONE_AT_LAST,
      [of('api', 'beatkeeper_beats_total', { outcome: 'monitor_not_found' })]: '0+9x120',
    },
  },
  BeatkeeperBeatsQueued: above(of('api', 'beatkeeper_beats_queued'), 1000, {
    labels: { pod: 'api-1' },
    summary: 'In the pod api-1 of Beatkeeper 1001 beats wait to be written',
  }),
  BeatkeeperExcusesWaiting: above(of('api', 'beatkeeper_excuses_waiting'), 0, {
    labels: { pod: 'api-1' },
    summary: 'The pod api-1 of Beatkeeper cannot write that 1 senders live',
  }),
  BeatkeeperServiceClockBehind: above(of('sweeper', 'beatkeeper_service_clock_lag_seconds'), 60, {
    summary: 'Incidents open 1m 1s late',
  }),
  BeatkeeperSweepBehind: above(of('sweeper', 'beatkeeper_sweep_due_lag_seconds'), 5, {
    summary: 'Missed deadlines are found 6s late',
  }),
  BeatkeeperDetectionLate: {
    fires: { [lateness('2')]: '0+90x120', [lateness('5')]: '0+100x120', [lateness('+Inf')]: '0+100x120' },
    summary: 'One of a hundred incidents opens 4.7s after its deadline or later',
    silent: {
      [lateness('2')]: '0+1000x120',
      [lateness('5')]: '0+1001x120',
      [lateness('+Inf')]: '0+1001x120',
    },
  },
  BeatkeeperSweepFails: {
    fires: { [failures]: '0+1x120' },
    labels: { sweep: 'retention' },
    summary: 'The sweep retention of Beatkeeper fails again and again',
    silent: { [failures]: '0x110 1x10' },
  },
  BeatkeeperMonitorsNotWoken: {
    fires: { [faults]: '0+1x120' },
    summary: 'Beatkeeper cannot find out whether some monitors are silent',
    silent: { [faults]: '0x110 1x10' },
  },
  BeatkeeperObservationsKeptTooLong: above(of('sweeper', 'beatkeeper_observation_sums_lag_seconds'), 86_400, {
    summary: 'Observations have not been summed up for a day',
  }),
  BeatkeeperPartitionsMissing: above(
    of('sweeper', 'beatkeeper_default_partition_rows', { table: 'observations' }),
    0,
    {
      labels: { table: 'observations' },
      summary: 'Rows of observations have no partition of their own',
    },
  ),
  BeatkeeperEncryptionKeyMissing: {
    fires: { [sealed('url')]: always(1) },
    labels: { key_id: 'k1' },
    summary: 'The encryption key k1 of Beatkeeper is not configured',
    silent: { [sealed('answer')]: always(9), [sealed('url')]: always(0) },
  },
  BeatkeeperDeliveriesLost: {
    fires: { [of('sweeper', 'beatkeeper_deliveries_lost_total')]: ONE_AT_LAST },
    silent: { [of('sweeper', 'beatkeeper_deliveries_lost_total')]: ONE_LONG_AGO },
  },
  BeatkeeperDeliveriesFail: {
    fires: { [attempts('delivered')]: '0+4x120', [attempts('failing')]: '0+5x120' },
    silent: {
      [attempts('delivered')]: '0+5x120',
      [attempts('failing')]: '0+4x120',
      [attempts('canceled')]: '0+99x120',
    },
  },
  BeatkeeperDeliveriesPostponed: {
    fires: { [attempts('postponed')]: '0+1x120' },
    // One delivery, which waits for an hour each time.
    firesToo: { [attempts('postponed')]: '0x9 1x59 2x49' },
    // One that was refused once, long enough ago for the alert.
    silent: { [attempts('postponed')]: '0x50 1x70', [attempts('failing')]: '0+1x120' },
  },
  BeatkeeperDeliveriesBusy: above(of('sweeper', 'beatkeeper_deliveries_in_flight'), 400, {
    labels: { pod: 'sweeper-1' },
    summary: 'The pod sweeper-1 of Beatkeeper sends 401 alerts at once, and has room for 576',
  }),
  BeatkeeperOperatorWithoutLeader: {
    fires: { [of('operator', 'leader_election_master_status')]: always(0) },
    silent: {
      [of('operator', 'leader_election_master_status')]: always(0),
      [of('operator', 'leader_election_master_status', { pod: 'operator-2' })]: always(1),
    },
  },
  BeatkeeperStatusFeedDown: {
    fires: {
      [of('operator', 'beatkeeper_operator_feed_up')]: always(0),
      [of('operator', 'beatkeeper_operator_feed_up', { pod: 'operator-2' })]: always(1),
    },
    labels: { pod: 'operator-1' },
    summary: 'The operator operator-1 does not hear the api of Beatkeeper',
    silent: { [of('operator', 'beatkeeper_operator_feed_up')]: '1x117 0x3' },
  },
  BeatkeeperReconcileErrors: {
    fires: { [errors]: '0+7x120' },
    labels: { controller: 'monitor' },
    summary: 'The operator of Beatkeeper fails on objects of monitor',
    silent: { [errors]: '0+5x120' },
  },
  BeatkeeperOperatorBehind: above(of('operator', 'workqueue_depth', { name: 'monitor' }), 1000, {
    labels: { name: 'monitor' },
    summary: 'The operator of Beatkeeper has 1001 objects of monitor to catch up with',
  }),
  BeatkeeperObjectsStalled: {
    fires: {
      [stalled('Monitor', 'SecretConflict')]: always(2),
      [stalled('Callback', 'SecretConflict')]: always(1),
      [stalled('Monitor', 'SecretConflict', 'operator-2')]: always(0),
      [stalled('Monitor', 'Refused')]: '1x95 0x25',
    },
    labels: { reason: 'SecretConflict' },
    summary: '3 objects of Beatkeeper wait for a person: SecretConflict',
    silent: {
      [stalled('Monitor', 'EndpointDisabled')]: always(9),
      [stalled('Monitor', 'DestinationRejected')]: always(0),
      // Somebody is at it.
      [stalled('Monitor', 'Refused')]: '0x95 1x25',
    },
  },
  BeatkeeperObjectsOfOtherReleases: above(
    of('operator', 'beatkeeper_operator_objects_of_other_releases', { kind: 'Monitor' }),
    0,
    {
      labels: { kind: 'Monitor' },
      summary: '1 objects of the kind Monitor belong to another release of Beatkeeper',
    },
  ),
  BeatkeeperMonitorsOrphaned: above(of('operator', 'beatkeeper_monitors_orphaned'), 0, {
    summary: '1 monitors of Beatkeeper have lost the object that declares them',
  }),
  BeatkeeperCallbacksOrphaned: above(of('operator', 'beatkeeper_callbacks_orphaned'), 0, {
    summary: '1 callback endpoints of Beatkeeper have lost the Callback that declares them',
  }),
  BeatkeeperMonitorsWithoutMetrics: above(of('operator', 'beatkeeper_monitor_series_omitted'), 0, {
    summary: '1 Monitors have no metrics of their own',
  }),
  BeatkeeperNamespaceDegraded: above(
    of('operator', 'beatkeeper_operator_degraded_namespaces', { namespace: 'payments' }),
    0,
    {
      labels: { namespace: 'payments' },
      summary: 'Beatkeeper cannot read the namespace payments',
    },
  ),
};
