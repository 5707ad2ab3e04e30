// Operations about operators that beat monitors (docs/contract/deadlines.md, "While no operator leads").
import { z } from 'zod';
import { identifier } from '../fields/field.ts';
import { jurisdictionQuery } from '../fields/paging.ts';
import { monitor } from '../resources/monitor.ts';
import { operatorId, setBeatenByBody, signBody } from '../resources/operator.ts';
import { MAX_CAUSES_BYTES, setOperatorCausesBody } from '../resources/operator-causes.ts';
import { operation } from './operation.ts';

const ofMonitor = {
  tag: 'Monitors',
  project: 'required',
  path: '/v1/monitors/{monitorId}/beaten-by',
  params: z.strictObject({ monitorId: identifier }),
  query: z.strictObject(jurisdictionQuery),
  etag: 'configuration',
  success: 200,
  response: monitor,
} as const;

export const operatorOperations = {
  setMonitorBeatenBy: operation({
    ...ofMonitor,
    operationId: 'setMonitorBeatenBy',
    method: 'PUT',
    summary: 'Say which operator beats a monitor',
    description:
      'From now on the monitor is judged up to the last sign of life of that operator. The same operator again changes nothing, so that it needs neither a key nor an ETag; it is no change of the configuration. Where the operator before has been silent since the clock of the monitor started, the clock starts again with a full interval plus grace.',
    preset: 'operator',
    body: setBeatenByBody,
  }),
  clearMonitorBeatenBy: operation({
    ...ofMonitor,
    operationId: 'clearMonitorBeatenBy',
    method: 'DELETE',
    summary: 'Take a monitor from its operator',
    description:
      'For a monitor whose operator is gone for good: it is judged again, from a full interval plus grace on. An operator that works takes it back within seconds.',
    preset: 'manage',
  }),
  signOperator: operation({
    operationId: 'signOperator',
    tag: 'Service',
    project: 'none',
    method: 'PUT',
    path: '/v1/operators/{operatorId}/sign',
    summary: 'Give a sign of life of an operator',
    description:
      'The operator that leads sends it every five seconds, and names the monitors whose runs it has not told all of. One that gives none for more than 20 seconds is silent: when it signs again, its silence counts as an outage for the monitors that it beats.',
    preset: 'operator',
    params: z.strictObject({ operatorId }),
    body: signBody,
    bodyOptional: true,
    success: 204,
  }),
  setOperatorCauses: operation({
    operationId: 'setOperatorCauses',
    tag: 'Service',
    project: 'none',
    method: 'PUT',
    path: '/v1/operators/{operatorId}/causes',
    summary: 'Say what an operator sees of the causes of missed beats',
    description:
      'All that it sees now; what it does not name any more has ended. The same again changes nothing, so that it needs neither a key nor an ETag. Monitors that do not exist, or that this operator does not beat, are passed over. The body may have 4 MiB, enough for each one within the bounds.',
    preset: 'operator',
    params: z.strictObject({ operatorId }),
    body: setOperatorCausesBody,
    maxBodyBytes: MAX_CAUSES_BYTES,
    success: 204,
  }),
};
