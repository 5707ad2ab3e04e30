// What other systems post, with their own fields and field order.

/** Webhook of Alertmanager (version 4 of its format): the alert that always fires. */
export const ALERTMANAGER_WATCHDOG = {
  receiver: 'beatkeeper',
  status: 'firing',
  alerts: [
    {
      status: 'firing',
      labels: {
        alertname: 'Watchdog',
        cluster: 'prod-1',
        prometheus: 'monitoring/kube-prometheus-stack-prometheus',
        severity: 'none',
      },
      annotations: {
        description:
          'This is an alert meant to ensure that the entire alerting pipeline is functional.\nThis alert is always firing, therefore it should always be firing in Alertmanager\nand always fire against a receiver. There are integrations with various notification\nmechanisms that send a notification when this alert is not firing. For example the\n"DeadMansSnitch" integration in PagerDuty.\n',
        runbook_url: 'https://runbooks.prometheus-operator.dev/runbooks/general/watchdog',
        summary: 'An alert that should always be firing to certify that Alertmanager is working properly.',
      },
      startsAt: '2026-01-31T08:00:00.000Z',
      endsAt: '0001-01-01T00:00:00Z',
      generatorURL: 'http://prometheus.example:9090/graph?g0.expr=vector%281%29&g0.tab=1',
      fingerprint: 'e25963d69425c836',
    },
  ],
  groupLabels: { alertname: 'Watchdog' },
  commonLabels: {
    alertname: 'Watchdog',
    cluster: 'prod-1',
    prometheus: 'monitoring/kube-prometheus-stack-prometheus',
    severity: 'none',
  },
  commonAnnotations: {
    summary: 'An alert that should always be firing to certify that Alertmanager is working properly.',
  },
  externalURL: 'http://alertmanager.example:9093',
  version: '4',
  groupKey: '{}/{alertname="Watchdog"}:{alertname="Watchdog"}',
  truncatedAlerts: 0,
};

/** Webhook contact point of Grafana: a `status`, a `state` and a `message` of its own. */
export const GRAFANA_FIRING = {
  receiver: 'beatkeeper',
  status: 'firing',
  alerts: [
    {
      status: 'firing',
      labels: { alertname: 'High memory usage', grafana_folder: 'Ops', team: 'blue', zone: 'us-1' },
      annotations: {
        description: 'The system has high memory usage – größer als 90 %',
        runbook_url: 'https://myrunbook.example/runbook/1234',
        summary: 'This alert was triggered for zone us-1',
      },
      startsAt: '2026-01-31T09:51:03.157076+02:00',
      endsAt: '0001-01-01T00:00:00Z',
      generatorURL: 'https://play.grafana.example/alerting/1afz29v7z/edit',
      fingerprint: 'c6eadffa33fcdf37',
      silenceURL:
        'https://play.grafana.example/alerting/silence/new?alertmanager=grafana&matchers=alertname%3DT2',
      dashboardURL: '',
      panelURL: '',
      values: { B: 44.23943737541908, C: 1 },
    },
  ],
  groupLabels: {},
  commonLabels: { team: 'blue' },
  commonAnnotations: {},
  externalURL: 'https://play.grafana.example/',
  version: '1',
  groupKey: '{}:{}',
  truncatedAlerts: 0,
  orgId: 1,
  title: '[FIRING:1]  (High memory usage Ops blue us-1)',
  state: 'alerting',
  message:
    '**Firing**\n\nValue: B=44.23943737541908, C=1\nLabels:\n - alertname = High memory usage\n - team = blue\n - zone = us-1\nAnnotations:\n - description = The system has high memory usage\n - summary = This alert was triggered for zone us-1\n',
};
